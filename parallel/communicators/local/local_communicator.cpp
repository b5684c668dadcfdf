#include "parallel/communicators/local/local_communicator.h"

#include <cstring>
#include <span>

#include "parallel/communicators/local/host_memory.h"

namespace packtrain {
namespace {

void copy(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

class LocalCommunicator final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }

  void all_gather(const void* send, void* receive, std::size_t count, DataType type,
                  void* /*stream*/) override {
    copy(receive, send, count * size_of(type));
  }
  void reduce_scatter(void* send, void* receive, std::size_t count, DataType type,
                      void* /*stream*/) override {
    copy(receive, send, count * size_of(type));
  }
  void all_to_all(const void* send, std::span<const std::size_t> send_counts, void* receive,
                  std::span<const std::size_t> /*receive_counts*/, DataType type,
                  void* /*stream*/) override {
    copy(receive, send, send_counts[0] * size_of(type));
  }
  void all_reduce(void* /*buffer*/, std::size_t /*count*/, DataType /*type*/, ReduceOp /*op*/,
                  void* /*stream*/) override {}
  void broadcast(void* /*buffer*/, std::size_t /*bytes*/, int /*root*/, void* /*stream*/) override {
  }
  void barrier() override {}

  std::unique_ptr<Communicator> split(int /*color*/, int /*key*/) override {
    return make_local_communicator();
  }
  CommunicatorMemory allocate(std::size_t bytes) override { return allocate_host_memory(bytes); }
  std::string path() const override { return "local"; }
  void poll_error() override {}
  void abort() override {}
};

}  // namespace

std::unique_ptr<Communicator> make_local_communicator() {
  return std::make_unique<LocalCommunicator>();
}

}  // namespace packtrain
