// Selects a path that all ranks of an NCCL communicator can take.
#pragma once

#include <functional>
#include <span>

#include "parallel/communicators/collective_path.h"

namespace packtrain {

// Collective. `least` replaces each value by the minimum over the communicator's ranks. `windows`
// returns whether NCCL makes symmetric windows on it. It is called on all ranks or on none, and
// only where everything else allows windows. Throws as choose_path() does, on all ranks.
PathChoice agree_on_path(const CommunicatorOptions& options,
                         const std::function<void(std::span<std::int64_t>)>& least,
                         const std::function<bool()>& windows);

}  // namespace packtrain
