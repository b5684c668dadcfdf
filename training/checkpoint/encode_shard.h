// Encodes what a rank owns of a weight that is stored encoded.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "parallel/sharding/shard_view.h"

namespace packtrain {

// Values [begin, begin + numel) of a parameter: contiguous float32 [numel] on the shard's device.
using ReadParameter = std::function<at::Tensor(std::int64_t begin, std::int64_t numel)>;

// Writes shard.weight. Reads all elements that share a scale with the shard's, so that a rank with
// a part of the parameter computes the same bytes. At most 2^26 elements at a time.
void encode_shard(const ShardView& shard, const ReadParameter& read);

}  // namespace packtrain
