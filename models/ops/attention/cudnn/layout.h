// Boundaries of a batch in cuDNN's form. The batch's first layer computes them on the device.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "models/block/batch.h"
#include "models/ops/attention/packed_heads.h"

namespace packtrain {

struct ShortUnits;  // models/ops/attention/short/attention.h

struct AttentionLayout {
  std::int64_t num_heads = 0;  // shape and sizes that it was computed for
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t num_sequences = 0;
  // int32 [2, num_sequences + padding] of queries and of keys, 0 after the batch's last sequence
  at::Tensor lengths;
  // int32 or int64 [5, num_sequences + padding], rows as in OffsetRow
  at::Tensor offsets;
};

enum OffsetRow : std::int64_t {
  kQueryOffsetRow,
  kHeadOffsetRow,
  kStatOffsetRow,
  kKeyOffsetRow,
  kKvOffsetRow,
};

// Layout of the batch's sequences `in` for plans of `num_sequences`, or of the long ones of `units`
// alone. It is cached in the batch for the next layers. The first call reads the boundaries on the
// device, on the current stream.
const AttentionLayout& attention_layout(DeviceBatch& batch, const PackedHeads& in,
                                        const AttentionShape& shape, std::int64_t num_sequences,
                                        bool wide_offsets, ShortUnits* units = nullptr);

}  // namespace packtrain
