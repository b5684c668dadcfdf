#include "parallel/communicators/faulty_communicator.h"

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "framework/core/error.h"
#include "parallel/communicators/forwarding_communicator.h"

namespace packtrain {
namespace {

std::atomic<CollectiveFault> injected = CollectiveFault::kNone;
std::atomic<bool> abort_hangs = false;
std::atomic<bool> link_lost = false;

[[noreturn]] void never_return() {
  while (true) std::this_thread::sleep_for(std::chrono::hours(24));
}

// The number of elements for the call, or nothing when the call is skipped.
std::optional<std::size_t> maybe_inject(std::size_t count) {
  switch (injected.exchange(CollectiveFault::kNone)) {
    case CollectiveFault::kSkip:
      return std::nullopt;
    case CollectiveFault::kOther:
      return count / 2;
    case CollectiveFault::kFail:
      abort_hangs = true;
      throw Error(ErrorCategory::kDevice, "a collective failed: injected by fault.kind");
    case CollectiveFault::kLose:
      link_lost = true;
      never_return();
    case CollectiveFault::kNone:
      break;
  }
  return count;
}

class FaultyCommunicator final : public ForwardingCommunicator {
 public:
  using ForwardingCommunicator::ForwardingCommunicator;

  void all_gather(const void* send, void* receive, std::size_t count, DataType type,
                  void* stream) override {
    if (const auto made = maybe_inject(count))
      real().all_gather(send, receive, *made, type, stream);
  }
  void reduce_scatter(void* send, void* receive, std::size_t count, DataType type,
                      void* stream) override {
    if (const auto made = maybe_inject(count))
      real().reduce_scatter(send, receive, *made, type, stream);
  }
  void all_reduce(void* buffer, std::size_t count, DataType type, ReduceOp op,
                  void* stream) override {
    if (const auto made = maybe_inject(count)) real().all_reduce(buffer, *made, type, op, stream);
  }
  std::unique_ptr<Communicator> split(int color, int key) override {
    return with_injected_faults(real().split(color, key));
  }
  void poll_error() override {
    if (link_lost) throw Error(ErrorCategory::kDevice, "a link was lost: injected by fault.kind");
    real().poll_error();
  }
  void abort() override {
    if (abort_hangs) never_return();
    real().abort();
  }
};

}  // namespace

void inject_collective_fault(CollectiveFault fault) {
  injected = fault;
}

std::unique_ptr<Communicator> with_injected_faults(std::unique_ptr<Communicator> real) {
  return std::make_unique<FaultyCommunicator>(std::move(real));
}

}  // namespace packtrain
