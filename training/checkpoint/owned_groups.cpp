#include "training/checkpoint/owned_groups.h"

#include <algorithm>

namespace packtrain {

std::vector<OwnedGroups> owned_groups(const ShardView& shard) {
  const std::int64_t owned_begin = shard.begin / kNf4GroupBytes;
  const std::int64_t owned_end = owned_begin + shard.numel / kNf4GroupBytes;
  std::vector<OwnedGroups> all;
  std::int64_t tensor_begin = 0;  // in groups of the parameter
  for (const ElementRange& range : shard.encoded_ranges) {
    const std::int64_t tensor_end = tensor_begin + num_nf4_groups(range.numel);
    const std::int64_t begin = std::max(owned_begin, tensor_begin);
    const std::int64_t end = std::min(owned_end, tensor_end);
    if (begin < end) {
      all.push_back({range, begin - tensor_begin,
                     shard.weight.narrow(0, (begin - owned_begin) * kNf4GroupBytes,
                                         (end - begin) * kNf4GroupBytes)});
    }
    tensor_begin = tensor_end;
  }
  return all;
}

}  // namespace packtrain
