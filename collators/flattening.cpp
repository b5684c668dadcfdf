#include "collators/flattening.h"

#include <fmt/format.h>

#include "framework/core/error.h"

namespace packtrain {

PackedBatch flatten(const TokenStore& store, const MicroBatch& pieces,
                    const LossNormalization& normalization, const CollatorOptions& options,
                    const HostAllocator& allocate) {
  std::vector<SequenceRun> sequences;
  sequences.reserve(pieces.size());
  for_each_sequence(pieces, [&](std::span<const Piece> sequence, std::int32_t num_tokens) {
    sequences.push_back({sequence.size(), static_cast<std::size_t>(num_tokens)});
  });
  return build_batch(store, pieces, sequences, normalization, options, allocate);
}

std::vector<std::int32_t> boundaries_from_position_ids(std::span<const std::int32_t> position_ids) {
  if (!position_ids.empty() && position_ids.front() != 0) {
    throw Error(ErrorCategory::kData, fmt::format("position_ids start with {}, a sequence starts "
                                                  "with 0",
                                                  position_ids.front()));
  }
  std::vector<std::int32_t> boundaries;
  for (std::size_t row = 0; row < position_ids.size(); ++row) {
    if (position_ids[row] == 0) boundaries.push_back(static_cast<std::int32_t>(row));
  }
  boundaries.push_back(static_cast<std::int32_t>(position_ids.size()));
  return boundaries;
}

}  // namespace packtrain
