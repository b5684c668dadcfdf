#include "models/ops/attention/per_sequence.h"

#include <ATen/Parallel.h>
#include <ATen/ops/_scaled_dot_product_efficient_attention.h>
#include <ATen/ops/_scaled_dot_product_efficient_attention_backward.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <functional>

#include "models/ops/attention/heads.h"

namespace packtrain {
namespace {

// Rows [begin, begin + length) of [T, heads, D] as the kernels' [1, heads, length, D].
at::Tensor sequence(const at::Tensor& rows, std::int64_t begin, std::int64_t length) {
  return rows.narrow(0, begin, length).transpose(0, 1).unsqueeze(0);
}

// [1, kv heads, L, D] -> [1, heads, L, D]: each key or value head once per query head using it.
at::Tensor repeat_heads(const at::Tensor& x, std::int64_t times) {
  const auto sizes = x.sizes();
  return x.unsqueeze(2)
      .expand({1, sizes[1], times, sizes[2], sizes[3]})
      .reshape({1, sizes[1] * times, sizes[2], sizes[3]});
}

// The sum over the query heads that used each head: the gradient of repeat_heads.
at::Tensor sum_heads(const at::Tensor& x, std::int64_t times) {
  const auto sizes = x.sizes();
  return x.reshape({1, sizes[1] / times, times, sizes[2], sizes[3]})
      .sum(at::IntArrayRef{2}, /*keepdim=*/false, at::kFloat);
}

struct SequenceHeads {
  at::Tensor query;  // all [1, num_heads, L, D]
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

// Calls body(index, begin, length) for each sequence that has a token: on the CPU over the cores,
// since most sequences are too short to give all cores work.
void for_each_sequence(const DeviceBatch& batch, bool parallel,
                       const std::function<void(std::int64_t, std::int64_t, std::int64_t)>& body) {
  const auto& offsets = batch.cu_seqlens_host;
  const auto range = [&](std::int64_t first, std::int64_t last) {
    const at::NoGradGuard no_grad;  // gradient mode is per thread
    for (std::int64_t i = first; i < last; ++i) {
      if (offsets[i + 1] > offsets[i]) {
        body(i, offsets[i], offsets[i + 1] - offsets[i]);
      }
    }
  };
  const auto num_sequences = static_cast<std::int64_t>(offsets.size()) - 1;
  if (parallel) {
    at::parallel_for(0, num_sequences, /*grain_size=*/1, range);
  } else {
    range(0, num_sequences);
  }
}

struct SequenceGrads {
  at::Tensor query;
  at::Tensor key;
  at::Tensor value;
};

SequenceGrads sequence_backward(const at::Tensor& grad_output, const SequenceHeads& in,
                                const at::Tensor& y, const at::Tensor& logsumexp) {
  if (y.is_cpu()) {
    auto [query, key, value] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        grad_output, in.query, in.key, in.value, y, logsumexp, /*dropout_p=*/0.0,
        /*is_causal=*/true);
    return {query, key, value};
  }
  const at::Tensor no_random_state = at::empty({}, at::TensorOptions(at::kLong));
  auto [query, key, value, bias] = at::_scaled_dot_product_efficient_attention_backward(
      grad_output, in.query, in.key, in.value, /*attn_bias=*/{}, y, logsumexp, no_random_state,
      no_random_state, /*dropout_p=*/0.0, {true, true, true, false}, /*is_causal=*/true);
  return {query, key, value};
}

}  // namespace

AttentionOutput per_sequence_forward(const at::Tensor& qkv, const AttentionShape& shape,
                                     const DeviceBatch& batch) {
  const Heads heads = split_heads(qkv, shape);
  const at::Tensor y = at::empty({qkv.size(0), shape.num_heads, shape.head_dim}, qkv.options());
  std::vector<at::Tensor> logsumexps(batch.cu_seqlens_host.size() - 1);
  for_each_sequence(batch, qkv.is_cpu(), [&](auto index, auto begin, auto length) {
    const SequenceHeads in = sequence_heads(heads, shape, begin, length);
    at::Tensor out;
    if (qkv.is_cpu()) {
      std::tie(out, logsumexps[index]) = at::_scaled_dot_product_flash_attention_for_cpu(
          in.query, in.key, in.value, /*dropout_p=*/0.0, /*is_causal=*/true);
    } else {
      std::tie(out, logsumexps[index], std::ignore, std::ignore) =
          at::_scaled_dot_product_efficient_attention(in.query, in.key, in.value, /*attn_bias=*/{},
                                                      /*compute_log_sumexp=*/true,
                                                      /*dropout_p=*/0.0, /*is_causal=*/true);
    }
    sequence(y, begin, length).copy_(out);
  });
  return {y.view({qkv.size(0), shape.num_heads * shape.head_dim}), std::move(logsumexps)};
}

at::Tensor per_sequence_backward(const at::Tensor& grad_output, const at::Tensor& qkv,
                                 const at::Tensor& y, const std::vector<at::Tensor>& saved,
                                 const AttentionShape& shape, const DeviceBatch& batch) {
  const Heads heads = split_heads(qkv, shape);
  const at::Tensor y_heads = y.view_as(heads.query);
  const at::Tensor grad_heads = grad_output.view_as(heads.query);
  at::Tensor grad = at::empty_like(qkv);
  const Heads grads = split_heads(grad, shape);
  const std::int64_t times = shape.num_heads / shape.num_kv_heads;
  for_each_sequence(batch, qkv.is_cpu(), [&](auto index, auto begin, auto length) {
    const SequenceHeads in = sequence_heads(heads, shape, begin, length);
    const SequenceGrads out = sequence_backward(sequence(grad_heads, begin, length), in,
                                                sequence(y_heads, begin, length), saved[index]);
    sequence(grads.query, begin, length).copy_(out.query);
    sequence(grads.key, begin, length).copy_(sum_heads(out.key, times));
    sequence(grads.value, begin, length).copy_(sum_heads(out.value, times));
  });
  return grad;
}

}  // namespace packtrain
