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

// The rows of a piece in its batch, and what numbers a token of any example.
struct PieceRows {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::uint64_t first_token = 0;  // of the row `begin`

  std::uint64_t token(std::size_t row) const { return first_token + (row - begin); }
};

PieceRows rows_of(const MicroBatch& pieces, std::span<const StepPart> parts,
                  const PackedBatch& batch, std::size_t piece) {
  const std::int64_t example = pieces[piece].example - first_example(parts, pieces[piece].example);
  return {static_cast<std::size_t>(batch.examples[piece]),
          static_cast<std::size_t>(batch.examples[pieces.size() + piece]),
          (static_cast<std::uint64_t>(example) << 32U) +
              static_cast<std::uint64_t>(pieces[piece].begin)};
}

}  // namespace

void fill_row_seeds(const MicroBatch& pieces, std::span<const StepPart> parts,
                    const CounterRandom& random, PackedBatch& batch) {
  std::ranges::fill(batch.row_seeds, 0);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const PieceRows rows = rows_of(pieces, parts, batch, i);
    for (std::size_t row = rows.begin; row < rows.end; ++row) {
      batch.row_seeds[row] = static_cast<std::int32_t>(random.bits(rows.token(row)));
    }
  }
}

void fill_sample_seeds(const MicroBatch& pieces, std::span<const StepPart> parts,
                       const CounterRandom& random, PackedBatch& batch) {
  std::size_t next = 0;  // of the supervised rows, which are in the order of the pieces
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const PieceRows rows = rows_of(pieces, parts, batch, i);
    const std::size_t end = next + static_cast<std::size_t>(batch.num_piece_labels[i]);
    for (; next < end; ++next) {
      const auto row = static_cast<std::size_t>(batch.loss_index[next]);
      batch.sample_seeds[next] = static_cast<std::int64_t>(random.bits(rows.token(row)));
    }
  }
}

}  // namespace packtrain
