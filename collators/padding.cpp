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
  std::vector<SegmentRun> segments(pieces.size());
  std::int64_t row = 0;
  for (SegmentRun& run : segments) {
    run.rows = {row, row + longest};
    row += longest;
  }
  return build_batch(store, pieces, segments, normalization, options, allocate);
}

}  // namespace packtrain
