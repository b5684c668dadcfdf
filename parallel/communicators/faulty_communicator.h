// Injected faults of collectives: the next call of this process fails, once.
#pragma once

#include <memory>

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

// The fault of the next all-gather, reduce-scatter or all-reduce of any communicator of
// with_injected_faults(). Thread-safe.
void inject_collective_fault(CollectiveFault fault);

// Forwards calls to `real`, except for injected faults.
std::unique_ptr<Communicator> with_injected_faults(std::unique_ptr<Communicator> real);

}  // namespace packtrain
