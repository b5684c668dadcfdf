#include "tests/models/ops/attention_reference.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace packtrain {
namespace {

// The index of each token's sequence, int32 [T].
at::Tensor sequence_of_tokens(const std::vector<std::int32_t>& lengths, at::Device device) {
  std::vector<std::int32_t> sequences;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    sequences.insert(sequences.end(), lengths[i], static_cast<std::int32_t>(i));
  }
  return at::tensor(sequences, at::TensorOptions(at::kInt)).to(device);
}

// [T, heads, D] -> [heads, T, D], each head `times` times.
at::Tensor by_head(const at::Tensor& x, std::int64_t times) {
  return x.transpose(0, 1).repeat_interleave(times, 0);
}

// [heads, T, D] -> [T, heads / times, D], summed over those that share.
at::Tensor by_token(const at::Tensor& x, std::int64_t times) {
  return x.view({-1, times, x.size(1), x.size(2)}).sum(1).transpose(0, 1);
}

struct Dense {
  at::Tensor query;  // [heads, T, D], float64
  at::Tensor key;
  at::Tensor value;
  at::Tensor grad_output;
  at::Tensor sequences;  // [T]
  at::Tensor places;     // [T]
  double scale = 0;
  AttentionPattern pattern;
  double soft_cap = 0;
  at::Tensor sinks;  // [heads, 1, 1], or undefined
};

// Rows [begin, begin + count) of y and d q; adds what they give d k and d v.
void attend_rows(const Dense& in, std::int64_t begin, std::int64_t count, AttentionResult& out) {
  const at::Tensor query = in.query.narrow(1, begin, count);
  const at::Tensor distance =
      in.places.narrow(0, begin, count).unsqueeze(1) - in.places.unsqueeze(0);
  at::Tensor unseen = (distance < 0)
                          .logical_or(in.sequences.narrow(0, begin, count).unsqueeze(1) !=
                                      in.sequences.unsqueeze(0));
  if (in.pattern.window > 0) unseen = unseen.logical_or(distance >= in.pattern.window);
  at::Tensor scores = at::matmul(query, in.key.transpose(1, 2)) * in.scale;
  at::Tensor slope;
  if (in.soft_cap > 0) {
    const at::Tensor shrunk = (scores / in.soft_cap).tanh();
    scores = shrunk * in.soft_cap;
    slope = 1 - shrunk * shrunk;
  }
  scores.masked_fill_(unseen, -std::numeric_limits<double>::infinity());
  at::Tensor weights;
  at::Tensor sink_weights;
  if (in.sinks.defined()) {  // one more column, without a value
    const at::Tensor sinks = in.sinks.expand({-1, count, 1});
    const at::Tensor all = at::softmax(at::cat({scores, sinks}, 2), -1);
    weights = all.narrow(2, 0, scores.size(2));
    sink_weights = all.narrow(2, scores.size(2), 1);
  } else {
    weights = at::softmax(scores, -1);
  }
  out.y.narrow(1, begin, count).copy_(at::matmul(weights, in.value));
  const at::Tensor grad = in.grad_output.narrow(1, begin, count);
  out.value.add_(at::matmul(weights.transpose(1, 2), grad));
  const at::Tensor grad_weights = at::matmul(grad, in.value.transpose(1, 2));
  const at::Tensor mean = (grad_weights * weights).sum(-1, /*keepdim=*/true);
  at::Tensor grad_scores = weights * (grad_weights - mean) * in.scale;
  if (slope.defined()) grad_scores = grad_scores * slope;
  if (sink_weights.defined()) out.sinks.sub_((sink_weights * mean).sum(at::IntArrayRef{1, 2}));
  out.query.narrow(1, begin, count).copy_(at::matmul(grad_scores, in.key));
  out.key.add_(at::matmul(grad_scores.transpose(1, 2), query));
}

double size_of(const at::Tensor& x) {
  return x.square().mean().sqrt().item<double>();
}

void expect_rows(const at::Tensor& actual, const at::Tensor& want, double floor, double tolerance,
                 const std::string& what) {
  ASSERT_EQ(actual.sizes(), want.sizes()) << what;
  const at::Tensor difference = actual.to(at::kDouble) - want;
  constexpr std::int64_t kGroup = 16;
  for (std::int64_t begin = 0; begin < want.size(0); begin += kGroup) {
    const std::int64_t count = std::min(kGroup, want.size(0) - begin);
    const double error = size_of(difference.narrow(0, begin, count));
    const double allowed = tolerance * (size_of(want.narrow(0, begin, count)) + floor);
    ASSERT_LE(error, allowed) << what << ", rows from " << begin;  // fails for NaN
  }
}

// Memory of many sizes, up to that of workspaces.
void poison_device_memory(const OperatorCase& on) {
  poison_free_memory(on);
  if (!on.device.is_cuda()) return;
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  std::vector<at::Tensor> held;
  for (std::int64_t mib = 2; mib <= 512; mib *= 2) {
    held.push_back(at::full({mib << 18}, kNan, on.options().dtype(at::kFloat)));
  }
}

}  // namespace

AttentionResult attention_formula(const at::Tensor& qkv, const at::Tensor& grad_output,
                                  const AttentionShape& shape,
                                  const std::vector<std::int32_t>& lengths,
                                  const at::Tensor& sinks) {
  const std::int64_t times = shape.num_heads / shape.num_kv_heads;
  const at::Tensor wide = qkv.to(at::kDouble);
  Dense in;
  in.query = by_head(wide.narrow(1, 0, shape.num_heads), 1);
  in.key = by_head(wide.narrow(1, shape.num_heads, shape.num_kv_heads), times);
  in.value =
      by_head(wide.narrow(1, shape.num_heads + shape.num_kv_heads, shape.num_kv_heads), times);
  in.grad_output = by_head(grad_output.view(in.query.transpose(0, 1).sizes()).to(at::kDouble), 1);
  in.sequences = sequence_of_tokens(lengths, qkv.device());
  in.places = at::arange(qkv.size(0), in.sequences.options());
  in.scale = shape.scale != 0 ? shape.scale : 1.0 / std::sqrt(static_cast<double>(shape.head_dim));
  in.pattern = shape.pattern;
  in.soft_cap = shape.soft_cap;
  AttentionResult out = {at::zeros_like(in.query),
                         at::zeros_like(in.query),
                         at::zeros_like(in.key),
                         at::zeros_like(in.value),
                         {}};
  if (sinks.defined()) {
    in.sinks = sinks.to(at::kDouble).view({-1, 1, 1});
    out.sinks = at::zeros({shape.num_heads}, in.sinks.options());
  }
  constexpr std::int64_t kScores = 1 << 25;  // at the same time: 256 MiB
  const std::int64_t rows = std::max<std::int64_t>(
      1, kScores / (shape.num_heads * std::max<std::int64_t>(1, qkv.size(0))));
  for (std::int64_t begin = 0; begin < qkv.size(0); begin += rows) {
    attend_rows(in, begin, std::min(rows, qkv.size(0) - begin), out);
  }
  return {by_token(out.y, 1), by_token(out.query, 1), by_token(out.key, times),
          by_token(out.value, times), out.sinks};
}

AttentionResult run_attention(const OperatorCase& on, const at::Tensor& qkv,
                              const at::Tensor& grad_output, const AttentionShape& shape,
                              DeviceBatch& batch, const Parameter* sinks) {
  poison_device_memory(on);
  const AttentionOutput out = attention_forward(qkv, shape, batch, sinks);
  poison_device_memory(on);
  const HeadGradients grad =
      attention_backward(grad_output, qkv, out.y, out.saved, shape, batch, sinks);
  return {out.y.view(grad.query.sizes()), grad.query, grad.key, grad.value,
          sinks != nullptr ? sinks->grad : at::Tensor()};
}

void expect_close_by_rows(const AttentionResult& actual, const AttentionResult& want,
                          double tolerance, const std::string& what) {
  // Rows whose gradient is all but zero (a sequence's first) are measured by the others too.
  const double floor = 0.1 * (size_of(want.query) + size_of(want.key) + size_of(want.value));
  expect_rows(actual.y, want.y, 0, tolerance, what + ", output");
  expect_rows(actual.query, want.query, floor, tolerance, what + ", d query");
  expect_rows(actual.key, want.key, floor, tolerance, what + ", d key");
  expect_rows(actual.value, want.value, floor, tolerance, what + ", d value");
  if (want.sinks.defined()) expect_close(actual.sinks, want.sinks, tolerance, what + ", d sinks");
}

}  // namespace packtrain
