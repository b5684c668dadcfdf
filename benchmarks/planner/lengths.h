// Distributions of example lengths for timing the planner, by name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace packtrain {

std::vector<std::string> distribution_names();

// `count` lengths in tokens, a pure function of its arguments. Throws Error(kConfig) for an unknown
// distribution.
std::vector<std::int32_t> draw_lengths(const std::string& distribution, std::size_t count,
                                       std::uint64_t seed);

}  // namespace packtrain
