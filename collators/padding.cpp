#include "collators/padding.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace packtrain {

PackedBatch pad_to_longest(const TokenStore& store, const MicroBatch& pieces,
                           const LossNormalization& normalization, const CollatorOptions& options,
                           const HostAllocator& allocate) {
  std::int32_t longest = 0;
  for (const Piece& piece : pieces) longest = std::max(longest, piece.length);
  const std::vector<SequenceRun> sequences(
      pieces.size(), {.num_pieces = 1, .num_rows = static_cast<std::size_t>(longest)});
  return build_batch(store, pieces, sequences, normalization, options, allocate);
}

}  // namespace packtrain
