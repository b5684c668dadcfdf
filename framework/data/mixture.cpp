#include "framework/data/mixture.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace packtrain {

std::vector<std::int64_t> mixture_counts(std::span<const MixturePart> parts, bool until_all) {
  double size = until_all ? 0 : std::numeric_limits<double>::infinity();  // of the epoch
  for (const MixturePart& part : parts) {
    const double until = part.amount / part.wanted;
    size = until_all ? std::max(size, until) : std::min(size, until);
  }
  constexpr double kMost = 0x1p53;  // far beyond what can be planned, and an integer
  std::vector<std::int64_t> counts;
  for (const MixturePart& part : parts) {
    const double repeats = part.wanted * size / part.amount;
    counts.push_back(
        std::llround(std::min(kMost, repeats * static_cast<double>(part.num_examples))));
  }
  return counts;
}

}  // namespace packtrain
