// Mixing stores by shares: how many examples of each an epoch has.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace packtrain {

struct MixturePart {
  double wanted = 0;              // share of the epoch; all parts' sum to 1
  std::int64_t num_examples = 0;  // of the store
  double amount = 0;              // of the store, > 0, in what shares are of: tokens or examples
};

// Where an epoch ends: where the first store would be used up once, or where each has been used up
// at least once (as datasets.interleave_datasets: first_exhausted, all_exhausted). Nothing is
// drawn: counts are those whose amounts come closest to the shares, and that store's is exact.
std::vector<std::int64_t> mixture_counts(std::span<const MixturePart> parts, bool until_all);

}  // namespace packtrain
