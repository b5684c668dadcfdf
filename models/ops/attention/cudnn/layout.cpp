#include "models/ops/attention/cudnn/layout.h"

#include <ATen/ops/empty.h>

#include <memory>

#include "models/ops/attention/cudnn/layout_launch.h"
#include "models/ops/attention/short/attention.h"
#include "models/ops/cuda/current_stream.h"

namespace packtrain {
namespace {

bool serves(const AttentionLayout& layout, const AttentionShape& shape, std::int64_t num_sequences,
            at::ScalarType offset_type) {
  return layout.num_heads == shape.num_heads && layout.num_kv_heads == shape.num_kv_heads &&
         layout.head_dim == shape.head_dim && layout.num_sequences == num_sequences &&
         layout.offsets.scalar_type() == offset_type;
}

}  // namespace

const AttentionLayout& attention_layout(DeviceBatch& batch, const PackedHeads& in,
                                        const AttentionShape& shape, std::int64_t num_sequences,
                                        bool wide_offsets, ShortUnits* units) {
  const at::ScalarType offset_type = wide_offsets ? at::kLong : at::kInt;
  std::shared_ptr<const AttentionLayout>& cached =
      units != nullptr ? units->long_layout : batch.state.attention_layout;
  if (cached != nullptr && serves(*cached, shape, num_sequences, offset_type)) return *cached;
  constexpr std::int64_t kAlignment = 4;  // elements: rows begin at multiples of 16 bytes
  auto layout = std::make_shared<AttentionLayout>();
  layout->num_heads = shape.num_heads;
  layout->num_kv_heads = shape.num_kv_heads;
  layout->head_dim = shape.head_dim;
  layout->num_sequences = num_sequences;
  const at::TensorOptions options = in.cu_queries.options();
  const std::int64_t stride = (num_sequences / kAlignment + 1) * kAlignment;
  layout->lengths = at::empty({2, stride}, options);
  layout->offsets = at::empty({kNumOffsets, stride}, options.dtype(offset_type));

  AttentionLayoutArguments arguments;
  arguments.cu_queries = in.cu_queries.const_data_ptr<std::int32_t>();
  arguments.cu_keys = in.cu_keys.const_data_ptr<std::int32_t>();
  arguments.num_in_batch = in.num_sequences();
  arguments.num_chosen = in.num_sequences();
  if (units != nullptr) {
    arguments.num_chosen = units->long_sequences.size(0);
    arguments.chosen = units->long_sequences.const_data_ptr<std::int32_t>();
  }
  arguments.num_sequences = num_sequences;
  arguments.lengths = layout->lengths.data_ptr<std::int32_t>();
  arguments.offsets = layout->offsets.data_ptr();
  arguments.row_stride = stride;
  arguments.elements_per_token[kQueryOffsetRow] = in.heads.query.stride(0);
  arguments.elements_per_token[kHeadOffsetRow] = shape.num_heads * shape.head_dim;
  arguments.elements_per_token[kStatOffsetRow] = shape.num_heads;
  arguments.elements_per_token[kKeyOffsetRow] = in.heads.key.stride(0);
  arguments.elements_per_token[kKvOffsetRow] = shape.num_kv_heads * shape.head_dim;
  arguments.wide_offsets = wide_offsets;
  launch_attention_layout(arguments, current_stream(in.cu_queries));
  cached = layout;
  return *cached;
}

}  // namespace packtrain
