#include "models/ops/rotary/rotary.h"

#include <ATen/ops/empty.h>

#include <string>

#include "framework/core/error.h"
#include "models/ops/cuda/current_stream.h"
#include "models/ops/cuda/head_parts.h"
#include "models/ops/rotary/rotary_launch.h"

namespace packtrain {

void rotary_forward_cuda_(const at::Tensor& qkv, const at::Tensor& position_ids,
                          const at::Tensor& frequencies, const RotaryOptions& options) {
  if (!qkv.is_contiguous()) {
    throw Error(ErrorCategory::kInternal, "rotary: got qkv with gaps, wanted it contiguous");
  }
  RotaryArguments arguments;
  at::Tensor owner;
  arguments.parts.query = head_part(qkv, owner);
  arguments.parts.num_query_heads = static_cast<int>(options.num_rotated_heads);
  arguments.output = qkv.data_ptr();
  arguments.num_output_heads = qkv.size(1);
  arguments.num_rows = qkv.size(0);
  arguments.head_dim = static_cast<int>(qkv.size(2));
  arguments.in_place = true;
  arguments.angles = rotary_angles(position_ids, frequencies, options, qkv.size(2), "rotary");
  arguments.dtype = float_type_of(qkv, "rotary");
  launch_rotary(arguments, current_stream(qkv));
}

at::Tensor rotary_backward_cuda(const at::Tensor& grad_query, const at::Tensor& grad_key,
                                const at::Tensor& grad_value, const at::Tensor& position_ids,
                                const at::Tensor& frequencies, const RotaryOptions& options) {
  RotaryArguments arguments;
  at::Tensor query;
  at::Tensor key;
  at::Tensor value;
  arguments.parts.query = head_part(grad_query, query);
  arguments.parts.key = head_part(grad_key, key);
  arguments.parts.value = head_part(grad_value, value);
  arguments.parts.num_query_heads = static_cast<int>(query.size(1));
  arguments.parts.num_key_heads = static_cast<int>(key.size(1));
  arguments.parts.num_value_heads = static_cast<int>(value.size(1));
  arguments.num_output_heads = query.size(1) + key.size(1) + value.size(1);
  if (query.size(1) + key.size(1) != options.num_rotated_heads) {
    throw Error(ErrorCategory::kInternal,
                "rotary: got gradients of " + std::to_string(query.size(1) + key.size(1)) +
                    " rotated heads, wanted " + std::to_string(options.num_rotated_heads));
  }
  const at::Tensor grad =
      at::empty({query.size(0), arguments.num_output_heads, query.size(2)}, query.options());
  arguments.output = grad.data_ptr();
  arguments.num_rows = query.size(0);
  arguments.head_dim = static_cast<int>(query.size(2));
  arguments.angles = rotary_angles(position_ids, frequencies, options, query.size(2), "rotary");
  arguments.angles.direction = -1;
  arguments.dtype = float_type_of(query, "rotary");
  launch_rotary(arguments, current_stream(query));
  return grad;
}

}  // namespace packtrain
