#include "models/ops/attention/per_sequence.h"

#include <ATen/ops/_scaled_dot_product_efficient_attention.h>
#include <ATen/ops/_scaled_dot_product_efficient_attention_backward.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <tuple>

#include "models/ops/attention/packed_heads.h"
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
  at::Tensor query;  // all are [1, num_heads, queries or keys, D]
  at::Tensor key;
  at::Tensor value;
  // [queries, keys], added to the scores. Undefined: as many keys as queries, causal.
  std::optional<at::Tensor> mask;

  bool is_causal() const { return !mask.has_value(); }
};

// 0 where a query sees a key, else -infinity: the last query sees the last key.
at::Tensor shifted_mask(std::int64_t num_queries, std::int64_t num_keys,
                        const at::TensorOptions& options) {
  return at::full({num_queries, num_keys}, -std::numeric_limits<double>::infinity(), options)
      .triu(num_keys - num_queries + 1);
}

SequenceHeads sequence_heads(const Heads& heads, const AttentionShape& shape,
                             const KernelSequence& rows) {
  const auto& [queries, keys] = rows;
  const std::int64_t times = shape.num_heads / shape.num_kv_heads;
  SequenceHeads in = {sequence(heads.query, queries.begin, queries.size()),
                      repeat_heads(sequence(heads.key, keys.begin, keys.size()), times),
                      repeat_heads(sequence(heads.value, keys.begin, keys.size()), times),
                      {}};
  if (keys.size() > queries.size()) {
    in.mask = shifted_mask(queries.size(), keys.size(), heads.query.options());
  }
  return in;
}

struct SequenceOutput {
  at::Tensor y;  // [1, num_heads, L, D]
  at::Tensor logsumexp;
};

SequenceOutput sequence_forward(const SequenceHeads& in, double scale) {
  SequenceOutput out;
  if (in.query.is_cpu()) {
    std::tie(out.y, out.logsumexp) = at::_scaled_dot_product_flash_attention_for_cpu(
        in.query, in.key, in.value, /*dropout_p=*/0.0, in.is_causal(), in.mask, scale);
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
            in.is_causal(), in.mask, scale);
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
                                     DeviceBatch& batch) {
  const Heads heads = packed_heads(qkv, shape, batch).heads;
  const at::Tensor y = at::empty({qkv.size(0), shape.num_heads, shape.head_dim}, qkv.options());
  std::vector<at::Tensor> logsumexps(static_cast<std::size_t>(num_sequences(batch)));
  for_each_sequence(batch, qkv.is_cpu(), [&](auto index, const KernelSequence& rows) {
    const SequenceHeads in = sequence_heads(heads, shape, rows);
    const SequenceOutput out = sequence_forward(in, attention_scale(shape));
    sequence(y, rows.queries.begin, rows.queries.size()).copy_(out.y);
    logsumexps[index] = out.logsumexp;
  });
  return {y.view({qkv.size(0), shape.num_heads * shape.head_dim}), std::move(logsumexps)};
}

HeadGradients per_sequence_backward(const at::Tensor& grad_output, const at::Tensor& qkv,
                                    const at::Tensor& y, const std::vector<at::Tensor>& saved,
                                    const AttentionShape& shape, DeviceBatch& batch) {
  const PackedHeads packed = packed_heads(qkv, shape, batch);
  const Heads& heads = packed.heads;
  const at::Tensor y_heads = y.view_as(heads.query);
  const at::Tensor grad_heads = grad_output.view_as(heads.query);
  const HeadGradients grad = {at::empty(heads.query.sizes(), qkv.options()),
                              at::empty(heads.key.sizes(), qkv.options()),
                              at::empty(heads.value.sizes(), qkv.options())};
  const std::int64_t times = shape.num_heads / shape.num_kv_heads;
  for_each_sequence(batch, qkv.is_cpu(), [&](auto index, const KernelSequence& rows) {
    const auto& [queries, keys] = rows;
    const SequenceHeads in = sequence_heads(heads, shape, rows);
    const SequenceOutput out = {sequence(y_heads, queries.begin, queries.size()), saved[index]};
    const HeadGradients in_grad = sequence_backward(
        sequence(grad_heads, queries.begin, queries.size()), in, out, attention_scale(shape));
    sequence(grad.query, queries.begin, queries.size()).copy_(in_grad.query);
    sequence(grad.key, keys.begin, keys.size()).copy_(sum_heads(in_grad.key, times));
    sequence(grad.value, keys.begin, keys.size()).copy_(sum_heads(in_grad.value, times));
  });
  return gradients_of_rows(grad, packed);
}

}  // namespace packtrain
