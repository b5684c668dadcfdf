#include "tests/parallel/communicators/thread_ranks.h"

#include <algorithm>
#include <barrier>
#include <cstdint>
#include <cstring>
#include <exception>
#include <numeric>
#include <thread>
#include <vector>

#include "framework/core/error.h"

namespace packtrain::test {
namespace {

struct Meeting {
  explicit Meeting(int num_ranks)
      : barrier(num_ranks), buffers(static_cast<std::size_t>(num_ranks)) {}
  std::barrier<> barrier;
  std::vector<const void*> buffers;
};

[[noreturn]] void not_supported() {
  throw Error(ErrorCategory::kInternal, "the test's communicator has no such collective");
}

// What checkpoints need: all_gather, broadcast, and all_reduce of one int64.
class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(int rank, Meeting& meeting) : rank_(rank), meeting_(meeting) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(meeting_.buffers.size()); }

  void all_gather(const void* send, void* receive, std::size_t count, DataType type,
                  void*) override {
    const std::size_t bytes = count * size_of(type);
    exchange(send, [&](std::size_t rank, const void* theirs) {
      std::memcpy(static_cast<char*>(receive) + rank * bytes, theirs, bytes);
    });
  }
  void all_reduce(void* buffer, std::size_t count, DataType type, ReduceOp op, void*) override {
    if (count != 1 || type != DataType::kInt64) not_supported();
    std::vector<std::int64_t> all;
    exchange(buffer, [&](std::size_t, const void* theirs) {
      all.push_back(*static_cast<const std::int64_t*>(theirs));
    });
    // No rank may write a buffer that another still reads: exchange() has two barriers.
    *static_cast<std::int64_t*>(buffer) = reduced(all, op);
  }
  void broadcast(void* buffer, std::size_t bytes, int root, void*) override {
    exchange(buffer, [&](std::size_t rank, const void* theirs) {
      const bool is_root = static_cast<int>(rank) == root;
      if (is_root && theirs != buffer) std::memcpy(buffer, theirs, bytes);
    });
  }
  void barrier() override { meeting_.barrier.arrive_and_wait(); }

  void reduce_scatter(void*, void*, std::size_t, DataType, void*) override { not_supported(); }
  void all_to_all(const void*, std::span<const std::size_t>, void*, std::span<const std::size_t>,
                  DataType, void*) override {
    not_supported();
  }
  std::unique_ptr<Communicator> split(int, int) override { not_supported(); }
  CommunicatorMemory allocate(std::size_t) override { not_supported(); }
  std::string path() const override { not_supported(); }
  void poll_error() override {}
  void abort() override {}

 private:
  static std::int64_t reduced(const std::vector<std::int64_t>& all, ReduceOp op) {
    switch (op) {
      case ReduceOp::kSum:
        return std::accumulate(all.begin(), all.end(), std::int64_t{0});
      case ReduceOp::kMin:
        return *std::ranges::min_element(all);
      case ReduceOp::kMax:
        return *std::ranges::max_element(all);
    }
    not_supported();
  }

  template <typename Take>
  void exchange(const void* mine, Take&& take) {
    meeting_.buffers[static_cast<std::size_t>(rank_)] = mine;
    meeting_.barrier.arrive_and_wait();
    for (std::size_t rank = 0; rank < meeting_.buffers.size(); ++rank) {
      take(rank, meeting_.buffers[rank]);
    }
    meeting_.barrier.arrive_and_wait();
  }

  int rank_;
  Meeting& meeting_;
};

}  // namespace

void run_ranks(int num_ranks, const std::function<void(Communicator&)>& work) {
  Meeting meeting(num_ranks);
  std::vector<std::exception_ptr> thrown(static_cast<std::size_t>(num_ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < num_ranks; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadCommunicator communicator(rank, meeting);
      try {
        work(communicator);
      } catch (...) {
        thrown[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& exception : thrown) {
    if (exception) std::rethrow_exception(exception);
  }
}

}  // namespace packtrain::test
