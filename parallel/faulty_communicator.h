// Faults of collectives, injected: the next call of this process goes wrong, once.
#pragma once

#include <memory>

#include "parallel/communicator.h"

namespace packtrain {

// kSkip: is not made; kOther: with half the elements; kFail: throws Error(kDevice), as where the
// library reports a fault, and then abort() never returns, as NCCL's may not; kLose: never returns,
// as where a link is lost, which poll_error() tells.
enum class CollectiveFault { kNone, kSkip, kOther, kFail, kLose };

// Of the next all-gather, reduce-scatter or all-reduce of any communicator below. Thread-safe.
void inject_collective_fault(CollectiveFault fault);

// Passes calls on to `real`, but for what is injected.
std::unique_ptr<Communicator> with_injected_faults(std::unique_ptr<Communicator> real);

}  // namespace packtrain
