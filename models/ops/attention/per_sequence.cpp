#include "models/ops/attention/per_sequence.h"

#include <ATen/ops/_scaled_dot_product_efficient_attention.h>
#include <ATen/ops/_scaled_dot_product_efficient_attention_backward.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/empty.h>

#include <cstdint>
#include <optional>
#include <tuple>

#include "models/ops/attention/heads.h"
#include "models/ops/attention/segments.h"

namespace packtrain {
namespace {

// Rows [begin, begin + length) of [T, heads, D] in the kernels' layout, [1, heads, length, D].
at::Tensor sequence(const at::Tensor& rows, std::int64_t begin, std::int64_t length) {
  return rows.narrow(0, begin, length).transpose(0, 1).unsqueeze(0);
}

// [1, kv heads, L, D] -> [1, heads, L, D]: repeats each key or value head for its query heads.
at::Tensor repeat_heads(const at::Tensor& x, std::int64_t times) {
  const auto sizes = x.sizes();
  return x.unsqueeze(2)
      .expand({1, sizes[1], times, sizes[2], sizes[3]})
      .reshape({1, sizes[1] * times, sizes[2], sizes[3]});
}

// Gradient of repeat_heads: the sum over the query heads that used each head.
at::Tensor sum_heads(const at::Tensor& x, std::int64_t times) {
  const auto sizes = x.sizes();
  return x.reshape({1, sizes[1] / times, times, sizes[2], sizes[3]})
      .sum(at::IntArrayRef{2}, /*keepdim=*/false, at::kFloat);
}

struct SequenceHeads {
  at::Tensor query;  // all are [1, num_heads, L, D]
  at::Tensor key;
  at::Tensor value;
};

SequenceHeads sequence_heads(const Heads& heads, const AttentionShape& shape, std::int64_t begin,
                             std::int64_t length) {
  const std::int64_t times = shape.num_heads / shape.num_kv_heads;
  return {sequence(heads.query, begin, length),
          repeat_heads(sequence(heads.key, begin, length), times),
          repeat_heads(sequence(heads.value, begin, length), times)};
}

struct SequenceOutput {
  at::Tensor y;  // [1, num_heads, L, D]
  at::Tensor logsumexp;
};

SequenceOutput sequence_forward(const SequenceHeads& in, double scale) {
  SequenceOutput out;
  if (in.query.is_cpu()) {
    std::tie(out.y, out.logsumexp) = at::_scaled_dot_product_flash_attention_for_cpu(
        in.query, in.key, in.value, /*dropout_p=*/0.0, /*is_causal=*/true, std::nullopt, scale);
  } else {
    std::tie(out.y, out.logsumexp, std::ignore, std::ignore) =
        at::_scaled_dot_product_efficient_attention(in.query, in.key, in.value, std::nullopt,
                                                    /*compute_log_sumexp=*/true, /*dropout_p=*/0.0,
                                                    /*is_causal=*/true, scale);
  }
  return out;
}

HeadGradients sequence_backward(const at::Tensor& grad_output, const SequenceHeads& in,
                                const SequenceOutput& out, double scale) {
  HeadGradients grad;
  if (in.query.is_cpu()) {
    std::tie(grad.query, grad.key, grad.value) =
        at::_scaled_dot_product_flash_attention_for_cpu_backward(
            grad_output, in.query, in.key, in.value, out.y, out.logsumexp, /*dropout_p=*/0.0,
            /*is_causal=*/true, std::nullopt, scale);
  } else {
    const at::Tensor no_random_state = at::empty({}, at::TensorOptions(at::kLong));
    std::tie(grad.query, grad.key, grad.value, std::ignore) =
        at::_scaled_dot_product_efficient_attention_backward(
            grad_output, in.query, in.key, in.value, at::Tensor(), out.y, out.logsumexp,
            no_random_state, no_random_state, /*dropout_p=*/0.0, {true, true, true, false},
            /*is_causal=*/true, scale);
  }
  return grad;
}

}  // namespace

AttentionOutput per_sequence_forward(const at::Tensor& qkv, const AttentionShape& shape,
                                     const DeviceBatch& batch) {
  const Heads heads = split_heads(qkv, shape);
  const at::Tensor y = at::empty({qkv.size(0), shape.num_heads, shape.head_dim}, qkv.options());
  std::vector<at::Tensor> logsumexps(static_cast<std::size_t>(batch.segments().size()));
  for_each_segment(batch, qkv.is_cpu(), [&](auto index, const AttentionSegment& segment) {
    const std::int64_t begin = segment.rows.begin;
    const std::int64_t length = segment.rows.size();
    const SequenceHeads in = sequence_heads(heads, shape, begin, length);
    const SequenceOutput out = sequence_forward(in, attention_scale(shape));
    sequence(y, begin, length).copy_(out.y);
    logsumexps[index] = out.logsumexp;
  });
  return {y.view({qkv.size(0), shape.num_heads * shape.head_dim}), std::move(logsumexps)};
}

HeadGradients per_sequence_backward(const at::Tensor& grad_output, const at::Tensor& qkv,
                                    const at::Tensor& y, const std::vector<at::Tensor>& saved,
                                    const AttentionShape& shape, const DeviceBatch& batch) {
  const Heads heads = split_heads(qkv, shape);
  const at::Tensor y_heads = y.view_as(heads.query);
  const at::Tensor grad_heads = grad_output.view_as(heads.query);
  const HeadGradients grad = {at::empty(heads.query.sizes(), qkv.options()),
                              at::empty(heads.key.sizes(), qkv.options()),
                              at::empty(heads.value.sizes(), qkv.options())};
  const std::int64_t times = shape.num_heads / shape.num_kv_heads;
  for_each_segment(batch, qkv.is_cpu(), [&](auto index, const AttentionSegment& segment) {
    const std::int64_t begin = segment.rows.begin;
    const std::int64_t length = segment.rows.size();
    const SequenceHeads in = sequence_heads(heads, shape, begin, length);
    const SequenceOutput out = {sequence(y_heads, begin, length), saved[index]};
    const HeadGradients in_grad =
        sequence_backward(sequence(grad_heads, begin, length), in, out, attention_scale(shape));
    sequence(grad.query, begin, length).copy_(in_grad.query);
    sequence(grad.key, begin, length).copy_(sum_heads(in_grad.key, times));
    sequence(grad.value, begin, length).copy_(sum_heads(in_grad.value, times));
  });
  return grad;
}

}  // namespace packtrain
