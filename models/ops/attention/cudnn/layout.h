// Boundaries of a batch in cuDNN's form. The batch's first layer computes them on the device.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "models/block/batch.h"
#include "models/ops/attention/attention.h"

namespace packtrain {

struct AttentionLayout {
  std::int64_t num_heads = 0;  // shape and sizes that it was computed for
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t num_sequences = 0;
  at::Tensor lengths;  // int32 [num_sequences], 0 after the batch's last sequence
  at::Tensor offsets;  // int32 or int64 [4, num_sequences + padding], rows as in OffsetRow
};

enum OffsetRow : std::int64_t { kQkvOffsets, kHeadOffsets, kKvOffsets, kStatOffsetsRow };

// Layout of the batch for plans of `num_sequences`. It is cached in the batch for the next layers.
// The first call reads the boundaries on the device, on the current stream.
const AttentionLayout& attention_layout(DeviceBatch& batch, const AttentionShape& shape,
                                        std::int64_t num_sequences, bool wide_offsets);

}  // namespace packtrain
