// The path that all ranks of an NCCL communicator can take.
#pragma once

#include <functional>
#include <span>

#include "parallel/collective_path.h"

namespace packtrain {

// Collective. `least` replaces each value by the least that any rank of the communicator has;
// `windows` tells whether NCCL makes symmetric windows on it, and is asked, on all ranks or on
// none, only where all else allows them. Throws as choose_path() does, on all ranks alike.
PathChoice agree_on_path(const CommunicatorOptions& options,
                         const std::function<void(std::span<std::int64_t>)>& least,
                         const std::function<bool()>& windows);

}  // namespace packtrain
