#include "tests/models/ops/attention_reference.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "models/ops/attention/wide/attention.h"
#include "models/ops/attention/wide/launch.h"

namespace packtrain {
namespace {

// bool [count, T]: true where a query, begin + the row's index, does not see a key (the column).
using UnseenKeys = std::function<at::Tensor(std::int64_t begin, std::int64_t count)>;

UnseenKeys unseen_in_sequences(const std::vector<std::int32_t>& lengths,
                               const AttentionPattern& pattern, at::Device device) {
  std::vector<std::int32_t> of_rows;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    of_rows.insert(of_rows.end(), lengths[i], static_cast<std::int32_t>(i));
  }
  const at::Tensor sequences = at::tensor(of_rows, at::TensorOptions(at::kInt)).to(device);
  const at::Tensor places = at::arange(sequences.size(0), sequences.options());
  return [=](std::int64_t begin, std::int64_t count) {
    const auto queries = [&](const at::Tensor& x) {
      return x.narrow(0, begin, count).unsqueeze(1);
    };
    const at::Tensor distance = queries(places) - places.unsqueeze(0);
    const at::Tensor unseen =
        (distance < 0).logical_or(queries(sequences) != sequences.unsqueeze(0));
    return pattern.window > 0 ? unseen.logical_or(distance >= pattern.window) : unseen;
  };
}

UnseenKeys unseen_in_segments(const AttentionSegments& segments, const AttentionPattern& pattern,
                              std::int64_t num_rows, at::Device device) {
  const at::Tensor unseen = at::ones({num_rows, num_rows}, at::TensorOptions(at::kBool));
  auto* data = unseen.data_ptr<bool>();
  for (std::int64_t s = 0; s < segments.size(); ++s) {
    const AttentionSegment segment = segments[s];
    std::vector<RowRange> keys(segment.prefix.begin(), segment.prefix.end());
    keys.push_back(segment.rows);
    for (std::int64_t query = segment.rows.begin; query < segment.rows.end; ++query) {
      for (const RowRange& range : keys) {
        for (std::int64_t key = range.begin; key < range.end; ++key) {
          if (segment.sees(query, key, pattern)) data[query * num_rows + key] = false;
        }
      }
    }
  }
  return [all = unseen.to(device)](std::int64_t begin, std::int64_t count) {
    return all.narrow(0, begin, count);
  };
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
  UnseenKeys unseen;
  double scale = 0;
  double soft_cap = 0;
  at::Tensor sinks;  // [heads, 1, 1], or undefined
};

// Rows [begin, begin + count) of y and d q; adds what they give d k and d v.
void attend_rows(const Dense& in, std::int64_t begin, std::int64_t count, AttentionResult& out) {
  const at::Tensor query = in.query.narrow(1, begin, count);
  at::Tensor scores = at::matmul(query, in.key.transpose(1, 2)) * in.scale;
  at::Tensor slope;
  if (in.soft_cap > 0) {
    const at::Tensor shrunk = (scores / in.soft_cap).tanh();
    scores = shrunk * in.soft_cap;
    slope = 1 - shrunk * shrunk;
  }
  scores.masked_fill_(in.unseen(begin, count), -std::numeric_limits<double>::infinity());
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

AttentionResult formula(const at::Tensor& qkv, const at::Tensor& grad_output,
                        const AttentionShape& shape, const UnseenKeys& unseen,
                        const at::Tensor& sinks) {
  const std::int64_t times = shape.num_heads / shape.num_kv_heads;
  const at::Tensor wide = qkv.to(at::kDouble);
  Dense in;
  in.query = by_head(wide.narrow(1, 0, shape.num_heads), 1);
  in.key = by_head(wide.narrow(1, shape.num_heads, shape.num_kv_heads), times);
  in.value =
      by_head(wide.narrow(1, shape.num_heads + shape.num_kv_heads, shape.num_kv_heads), times);
  in.grad_output = by_head(grad_output.view(in.query.transpose(0, 1).sizes()).to(at::kDouble), 1);
  in.unseen = unseen;
  in.scale = shape.scale != 0 ? shape.scale : 1.0 / std::sqrt(static_cast<double>(shape.head_dim));
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

}  // namespace

DeviceBatch segment_batch(const std::vector<SegmentPart>& parts, const at::Device& device) {
  DeviceBatch batch;
  batch.cu_seqlens_host = {0};
  for (const SegmentPart& part : parts) {
    const std::int32_t begin = batch.cu_seqlens_host.back();
    const auto index = std::ssize(batch.cu_seqlens_host) - 1;
    if (!part.prefix.empty()) batch.prefixes.push_back({index, part.prefix});
    batch.cu_seqlens_host.push_back(begin + part.length);
    const AttentionSegment segment = batch.segments()[index];
    batch.max_seqlen = std::max(batch.max_seqlen, static_cast<std::int32_t>(segment.num_keys()));
  }
  batch.cu_seqlens = at::tensor(batch.cu_seqlens_host, at::TensorOptions(at::kInt)).to(device);
  return batch;
}

std::vector<AttentionBackend> backends_on(const OperatorCase& on) {
  if (on.device.is_cuda() && on.dtype == at::kBFloat16) {
    return {AttentionBackend::kCudnn, AttentionBackend::kFlash, AttentionBackend::kReference,
            AttentionBackend::kPlain};
  }
  return {AttentionBackend::kReference, AttentionBackend::kPlain};
}

std::vector<AttentionBackend> wide_backends_on(const OperatorCase& on) {
  if (!on.device.is_cuda() || on.dtype != at::kBFloat16) return {AttentionBackend::kPlain};
  std::vector<AttentionBackend> backends = {AttentionBackend::kPlain};
  if (wide_shared_bytes() >= kWideSharedBytes) backends.push_back(AttentionBackend::kWide);
  if (wide_shared_bytes() >= kSmallWideSharedBytes)
    backends.push_back(AttentionBackend::kWideSmall);
  return backends;
}

std::vector<AttentionBackend> window_backends_on(const OperatorCase& on) {
  std::vector<AttentionBackend> backends = backends_on(on);
  std::erase(backends, AttentionBackend::kReference);
  return backends;
}

AttentionResult attention_formula(const at::Tensor& qkv, const at::Tensor& grad_output,
                                  const AttentionShape& shape,
                                  const std::vector<std::int32_t>& lengths,
                                  const at::Tensor& sinks) {
  const UnseenKeys unseen = unseen_in_sequences(lengths, shape.pattern, qkv.device());
  return formula(qkv, grad_output, shape, unseen, sinks);
}

AttentionResult attention_formula(const at::Tensor& qkv, const at::Tensor& grad_output,
                                  const AttentionShape& shape, const AttentionSegments& segments,
                                  const at::Tensor& sinks) {
  const UnseenKeys unseen = unseen_in_segments(segments, shape.pattern, qkv.size(0), qkv.device());
  return formula(qkv, grad_output, shape, unseen, sinks);
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
