// The NF4 groups of a shard, by the tensors that they encode.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "parallel/sharding/shard_view.h"

namespace packtrain {

struct OwnedGroups {
  ElementRange range;            // of the tensor, in the parameter
  std::int64_t first_group = 0;  // owned, of the tensor's
  at::Tensor groups;             // uint8, a view of the shard
};

// Has an entry for each tensor that the shard has groups of. `shard` is encoded.
std::vector<OwnedGroups> owned_groups(const ShardView& shard);

}  // namespace packtrain
