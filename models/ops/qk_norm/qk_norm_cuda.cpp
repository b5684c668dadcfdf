#include "models/ops/qk_norm/qk_norm.h"

#include <ATen/ops/empty.h>

#include "models/ops/cuda/current_stream.h"
#include "models/ops/cuda/gradient_target.h"
#include "models/ops/cuda/head_parts.h"
#include "models/ops/qk_norm/qk_norm_launch.h"

namespace packtrain {
namespace {

// `qkv` must be contiguous.
QkNormArguments arguments_of(const at::Tensor& qkv, const QkNorm& norm,
                             const at::Tensor& position_ids, const at::Tensor& frequencies,
                             const RotaryOptions& rotary) {
  const auto num_query_heads = static_cast<int>(norm.num_query_heads);
  QkNormArguments arguments;
  at::Tensor owner;
  arguments.qkv.query = head_part(qkv, owner);
  arguments.qkv.key = head_part(qkv.narrow(1, norm.num_query_heads, 1), owner);
  arguments.qkv.num_query_heads = num_query_heads;
  arguments.qkv.num_key_heads = static_cast<int>(rotary.num_rotated_heads) - num_query_heads;
  arguments.query_weight = norm.query.value.const_data_ptr();
  arguments.key_weight = norm.key.value.const_data_ptr();
  arguments.num_output_heads = qkv.size(1);
  arguments.num_rows = qkv.size(0);
  arguments.head_dim = static_cast<int>(qkv.size(2));
  arguments.epsilon = static_cast<float>(norm.options.epsilon);
  arguments.weight_offset = static_cast<float>(norm.options.weight_offset);
  arguments.angles = rotary_angles(position_ids, frequencies, rotary, qkv.size(2), "qk_norm");
  arguments.dtype = float_type_of(qkv, "qk_norm");
  return arguments;
}

// Launches the backward kernel and the sum of its partial sums.
void launch_backward(QkNormArguments& arguments, const at::Tensor& qkv, const QkNorm& norm) {
  ColumnSumsArguments sums;
  sums.num_columns = arguments.head_dim;
  sums.num_partials = qk_norm_backward_blocks(arguments);
  sums.num_targets = 2;
  sums.targets[0] = gradient_target(&norm.query, "qk_norm");
  sums.targets[1] = gradient_target(&norm.key, "qk_norm");
  const bool wanted = sums.targets[0].grad != nullptr || sums.targets[1].grad != nullptr;
  at::Tensor partials;
  if (wanted) {
    partials =
        at::empty({sums.num_partials, 2, arguments.head_dim}, qkv.options().dtype(at::kFloat));
    arguments.partials = partials.data_ptr<float>();
    sums.partials = arguments.partials;
  }
  launch_qk_norm(arguments, current_stream(qkv));
  if (wanted) launch_column_sums(sums, current_stream(qkv));
}

}  // namespace

QkNormOutput qk_norm_forward_cuda(const at::Tensor& qkv, const QkNorm& norm,
                                  const at::Tensor& position_ids, const at::Tensor& frequencies,
                                  const RotaryOptions& rotary) {
  const at::Tensor in = qkv.contiguous();
  QkNormOutput output{
      at::empty(in.sizes(), in.options()),
      at::empty({in.size(0), rotary.num_rotated_heads}, in.options().dtype(at::kFloat))};
  QkNormArguments arguments = arguments_of(in, norm, position_ids, frequencies, rotary);
  arguments.output = output.qkv.data_ptr();
  arguments.inverse_rms = output.inverse_rms.data_ptr<float>();
  launch_qk_norm(arguments, current_stream(in));
  const std::int64_t num_values = in.size(1) - rotary.num_rotated_heads;
  output.qkv.narrow(1, rotary.num_rotated_heads, num_values)
      .copy_(in.narrow(1, rotary.num_rotated_heads, num_values));
  return output;
}

at::Tensor qk_norm_backward_cuda(const at::Tensor& grad_query, const at::Tensor& grad_key,
                                 const at::Tensor& grad_value, const at::Tensor& qkv,
                                 const at::Tensor& inverse_rms, const QkNorm& norm,
                                 const at::Tensor& position_ids, const at::Tensor& frequencies,
                                 const RotaryOptions& rotary) {
  const at::Tensor in = qkv.contiguous();
  at::Tensor query;
  at::Tensor key;
  at::Tensor value;
  at::Tensor grad = at::empty(in.sizes(), in.options());
  QkNormArguments arguments = arguments_of(in, norm, position_ids, frequencies, rotary);
  arguments.grads = arguments.qkv;
  arguments.grads.query = head_part(grad_query, query);
  arguments.grads.key = head_part(grad_key, key);
  arguments.grads.value = head_part(grad_value, value);
  arguments.grads.num_value_heads = static_cast<int>(value.size(1));
  arguments.output = grad.data_ptr();
  arguments.inverse_rms = inverse_rms.data_ptr<float>();
  arguments.angles.direction = -1;
  launch_backward(arguments, in, norm);
  return grad;
}

}  // namespace packtrain
