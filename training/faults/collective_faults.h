// Injected faults of collectives: the next call of this process fails, once.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>

#include "parallel/communicators/communicator.h"

namespace packtrain {

// The faults:
//
//   kSkip: the call is skipped.
//   kOther: the call has half the elements.
//   kFail: the call throws Error(kDevice), as when the library reports a fault. Afterwards abort()
//     never returns, as NCCL's may not.
//   kLose: the call never returns, as when a link is lost. poll_error() reports it.
enum class CollectiveFault { kNone, kSkip, kOther, kFail, kLose };

// The faults of the communicators that it decorates. Thread-safe.
class CollectiveFaults : public std::enable_shared_from_this<CollectiveFaults> {
 public:
  // Forwards calls to `real`, except for injected faults.
  std::unique_ptr<Communicator> decorate(std::unique_ptr<Communicator> real);
  // The fault of the next all-gather, reduce-scatter or all-reduce of any of them.
  void inject(CollectiveFault fault) { next_ = fault; }

  // For the decorator: the number of elements of a call, or nothing when it is skipped.
  std::optional<std::size_t> begin_call(std::size_t count);
  bool abort_hangs() const { return abort_hangs_; }
  bool is_link_lost() const { return link_lost_; }

 private:
  std::atomic<CollectiveFault> next_ = CollectiveFault::kNone;
  std::atomic<bool> abort_hangs_ = false;
  std::atomic<bool> link_lost_ = false;
};

}  // namespace packtrain
