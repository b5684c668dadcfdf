// A batch's boundaries as cuDNN reads them: made on the device, once a batch, by its first layer.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "models/batch.h"
#include "models/ops/attention/attention.h"

namespace packtrain {

struct AttentionLayout {
  std::int64_t num_heads = 0;  // the shape and sizes it was made for
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t num_sequences = 0;
  at::Tensor lengths;  // int32 [num_sequences], zero past the batch's last
  at::Tensor offsets;  // int32 or int64 [4, num_sequences + padding], rows as in OffsetRow
};

enum OffsetRow : std::int64_t { kQkvOffsets, kHeadOffsets, kKvOffsets, kStatOffsetsRow };

// The batch's layout for plans of `num_sequences`, kept in the batch for the next layer. Boundaries
// are read on the device when this is first called, on the current stream.
const AttentionLayout& attention_layout(const DeviceBatch& batch, const AttentionShape& shape,
                                        std::int64_t num_sequences, bool wide_offsets);

}  // namespace packtrain
