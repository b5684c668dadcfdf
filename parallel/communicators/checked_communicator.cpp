#include "parallel/communicators/checked_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/core/error.h"
#include "parallel/communicators/collective_log.h"
#include "parallel/communicators/forwarding_communicator.h"

namespace packtrain {
namespace {

constexpr std::size_t kLineBytes = 160;

class CheckedCommunicator final : public ForwardingCommunicator {
 public:
  CheckedCommunicator(std::unique_ptr<Communicator> real, std::unique_ptr<Communicator> control,
                      std::string name)
      : ForwardingCommunicator(std::move(real)),
        control_(std::move(control)),
        name_(std::move(name)),
        lines_(kLineBytes * static_cast<std::size_t>(control_->size())) {}

  void all_gather(const void* send, void* receive, std::size_t count, DataType type,
                  void* stream) override {
    compare("all_gather", count, type);
    real().all_gather(send, receive, count, type, stream);
  }
  void reduce_scatter(void* send, void* receive, std::size_t count, DataType type,
                      void* stream) override {
    compare("reduce_scatter", count, type);
    real().reduce_scatter(send, receive, count, type, stream);
  }
  // Counts differ between ranks.
  void all_to_all(const void* send, std::span<const std::size_t> send_counts, void* receive,
                  std::span<const std::size_t> receive_counts, DataType type,
                  void* stream) override {
    compare("all_to_all", 0, type);
    real().all_to_all(send, send_counts, receive, receive_counts, type, stream);
  }
  void all_reduce(void* buffer, std::size_t count, DataType type, ReduceOp op,
                  void* stream) override {
    constexpr const char* kNames[] = {"all_reduce (sum)", "all_reduce (min)", "all_reduce (max)"};
    compare(kNames[static_cast<int>(op)], count, type);
    real().all_reduce(buffer, count, type, op, stream);
  }
  void broadcast(void* buffer, std::size_t bytes, int root, void* stream) override {
    compare(fmt::format("broadcast from {}", root), bytes, DataType::kUInt8);
    real().broadcast(buffer, bytes, root, stream);
  }
  void barrier() override {
    compare("barrier", 0, DataType::kUInt8);
    real().barrier();
  }
  void gather(const void* send, void* receive, std::size_t count, DataType type,
              int root) override {
    compare(fmt::format("gather to {}", root), count, type);
    real().gather(send, receive, count, type, root);
  }
  std::unique_ptr<Communicator> split(int color, int key) override {
    compare("split", 0, DataType::kUInt8);
    return check_collectives(real().split(color, key), control_->split(color, key), name_);
  }
  CommunicatorMemory allocate(std::size_t bytes) override {
    compare("allocate", bytes, DataType::kUInt8);
    return real().allocate(bytes);
  }
  std::size_t allocate_scratch(std::size_t bytes) override {
    compare("allocate_scratch", bytes, DataType::kUInt8);
    return real().allocate_scratch(bytes);
  }
  void abort() override {
    real().abort();
    control_->abort();
  }

 private:
  void compare(std::string_view operation, std::size_t count, DataType type);
  std::string_view line_of(int rank) const {
    return &lines_[kLineBytes * static_cast<std::size_t>(rank)];
  }

  std::unique_ptr<Communicator> control_;
  std::string name_;
  std::vector<char> lines_;  // of all ranks, each terminated by a zero
  std::uint64_t num_called_ = 0;
};

void CheckedCommunicator::compare(std::string_view operation, std::size_t count, DataType type) {
  const std::string line =
      fmt::format("call {}, {} of {} x {} ({} bytes each){}", ++num_called_, operation, count,
                  static_cast<int>(type), size_of(type), collective_label());
  std::vector<char> mine(kLineBytes, '\0');
  std::memcpy(mine.data(), line.data(), std::min(line.size(), kLineBytes - 1));
  control_->all_gather(mine.data(), lines_.data(), kLineBytes, DataType::kUInt8, nullptr);
  for (int rank = 1; rank < control_->size(); ++rank) {
    if (line_of(rank) == line_of(0)) continue;
    throw Error(ErrorCategory::kInternal,
                fmt::format("collectives over {} do not match: rank {} of it is about to do {}; "
                            "rank 0: {}",
                            name_, rank, line_of(rank), line_of(0)),
                "This is a bug of the program: please report it with both lines.");
  }
}

}  // namespace

std::unique_ptr<Communicator> check_collectives(std::unique_ptr<Communicator> real,
                                                std::unique_ptr<Communicator> control,
                                                const std::string& name) {
  return std::make_unique<CheckedCommunicator>(std::move(real), std::move(control), name);
}

}  // namespace packtrain
