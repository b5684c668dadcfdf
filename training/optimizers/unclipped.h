// Counters of the elements whose step an optimizer does not clip (UpdateOptions::num_unclipped).
#pragma once

#include <cstdint>

namespace packtrain {

// Their sum is the number. There are many, so that few warps of a GPU wait for each other.
inline constexpr std::int64_t kUnclippedCounters = 1024;

}  // namespace packtrain
