// Mixing stores by shares: how many examples of each an epoch has. Nothing is drawn anew: of a part
// of a store the examples follow from their numbers in it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace packtrain {

// `count` of a store's examples 0 .. num_examples - 1, ascending: those whose hash comes first, so
// that they look drawn, are the same in every run, and more of them contain fewer.
std::vector<std::uint32_t> choose_examples(std::int64_t num_examples, std::int64_t count);

// How many of them come closest to `wanted` in the sum of their `amounts` [num_examples].
std::int64_t count_to_choose(std::span<const std::int32_t> amounts, double wanted);

struct MixturePart {
  double wanted = 0;  // share of the epoch; all parts' sum to 1
  // [its examples] in what shares are of: their tokens, or 1 each; 0: not trained. Not all 0.
  std::vector<std::int32_t> amounts;
};

// Examples of each part in an epoch, which ends where the first store would be used up once, or
// where each has been used up at least once (as datasets.interleave_datasets: first_exhausted,
// all_exhausted). They come as close to the shares as whole examples can.
std::vector<std::int64_t> mixture_counts(std::span<const MixturePart> parts, bool until_all);

}  // namespace packtrain
