#include "collators/row_seeds.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace packtrain {
namespace {

// The first example of the part that has `example`.
std::int64_t first_example(std::span<const StepPart> parts, std::int64_t example) {
  return parts.empty() ? 0 : parts[part_of(parts, example)].first_example;
}

}  // namespace

void fill_row_seeds(const MicroBatch& pieces, std::span<const StepPart> parts,
                    const CounterRandom& random, PackedBatch& batch) {
  std::ranges::fill(batch.row_seeds, 0);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const auto begin = static_cast<std::size_t>(batch.examples[i]);
    const auto end = static_cast<std::size_t>(batch.examples[pieces.size() + i]);
    const std::int64_t example = pieces[i].example - first_example(parts, pieces[i].example);
    for (std::size_t row = begin; row < end; ++row) {
      const auto position = static_cast<std::uint64_t>(pieces[i].begin) + row - begin;
      const std::uint64_t token = (static_cast<std::uint64_t>(example) << 32U) + position;
      batch.row_seeds[row] = static_cast<std::int32_t>(random.bits(token));
    }
  }
}

}  // namespace packtrain
