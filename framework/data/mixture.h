// Number of examples of each store in an epoch of a mixture. Nothing is drawn at random at run
// time: the chosen examples follow from their indices.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace packtrain {

// Chooses `count` of a store's examples 0 .. num_examples - 1, ascending. It takes those with the
// smallest hash. The choice looks random, is the same in every run, and contains the choice of any
// smaller count.
std::vector<std::uint32_t> choose_examples(std::int64_t num_examples, std::int64_t count);

// The number of examples, in the order of choose_examples(), whose sum of `amounts` [num_examples]
// is closest to `wanted`.
std::int64_t count_to_choose(std::span<const std::int32_t> amounts, double wanted);

struct MixturePart {
  double wanted = 0;  // fraction of the epoch; the fractions of all parts sum to 1
  // [examples] the unit of the fractions: tokens, or 1 for each example; 0: not trained. At least
  // one is above 0.
  std::vector<std::int32_t> amounts;
};

// Number of examples of each part in an epoch, as close to the fractions as whole examples allow.
// The epoch ends when the first store has been used once, or with `until_all` when each has been
// used at least once. These are first_exhausted and all_exhausted of datasets.interleave_datasets.
std::vector<std::int64_t> mixture_counts(std::span<const MixturePart> parts, bool until_all);

}  // namespace packtrain
