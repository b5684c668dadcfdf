// Attention over packed documents, compared with libtorch's FlashAttention-2 and with cuDNN's plan
// for exactly the sizes of the pack.
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "benchmarks/ops/op_benchmark.h"
#include "framework/core/random.h"
#include "models/block/batch.h"
#include "models/ops/attention/attention.h"
#include "models/ops/attention/cudnn/attention.h"
#include "models/ops/attention/flash.h"

namespace packtrain {
namespace {

using Lengths = std::vector<std::int32_t>;

struct Pack {
  std::string name;
  Lengths lengths;

  std::int64_t tokens() const { return std::reduce(lengths.begin(), lengths.end()); }
  std::int64_t pairs(const AttentionPattern& pattern) const {
    return std::transform_reduce(lengths.begin(), lengths.end(), std::int64_t{0}, std::plus<>(),
                                 [&](std::int64_t length) { return pattern.pairs(length); });
  }
};

Pack equal_lengths(std::int32_t length, int count) {
  return {shape_text({count, length}), Lengths(static_cast<std::size_t>(count), length)};
}

// Fills `tokens` with lengths from lognormal(mu, sigma), clipped to 8..4,096. The last one is cut.
Pack drawn_lengths(const std::string& name, double mu, double sigma, std::int32_t tokens) {
  Pack pack{name, {}};
  const CounterRandom random(1, name);
  for (std::int32_t left = tokens; left > 0; left -= pack.lengths.back()) {
    const double drawn = std::exp(mu + sigma * random.normal(pack.lengths.size()));
    pack.lengths.push_back(
        std::min(left, static_cast<std::int32_t>(std::clamp(drawn, 8.0, 4096.0))));
  }
  return pack;
}

std::shared_ptr<DeviceBatch> make_batch(const Pack& pack) {
  auto batch = std::make_shared<DeviceBatch>();
  batch->cu_seqlens_host = {0};
  std::partial_sum(pack.lengths.begin(), pack.lengths.end(),
                   std::back_inserter(batch->cu_seqlens_host));
  batch->cu_seqlens = at::tensor(batch->cu_seqlens_host, at::kInt).to(at::kCUDA);
  batch->max_seqlen = *std::ranges::max_element(pack.lengths);
  return batch;
}

struct Kernel {
  // FlashAttention's take a const batch, the others fill its state.
  std::function<AttentionOutput(const at::Tensor&, const AttentionShape&, DeviceBatch&)> forward;
  std::function<HeadGradients(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                              const std::vector<at::Tensor>&, const AttentionShape&, DeviceBatch&)>
      backward;
};

MakeCall forward_call(const Pack& pack, const AttentionShape& shape, const Kernel& kernel) {
  return [=] {
    const std::int64_t num_all = shape.num_heads + 2 * shape.num_kv_heads;
    return keeping_output(
        [=, batch = make_batch(pack),
         qkv = random_numbers({pack.tokens(), num_all, shape.head_dim}, at::kBFloat16)] {
          return kernel.forward(qkv, shape, *batch);
        });
  };
}

MakeCall backward_call(const Pack& pack, const AttentionShape& shape, const Kernel& kernel) {
  return [=] {
    const std::int64_t num_all = shape.num_heads + 2 * shape.num_kv_heads;
    const auto batch = make_batch(pack);
    const at::Tensor qkv = random_numbers({pack.tokens(), num_all, shape.head_dim}, at::kBFloat16);
    const AttentionOutput output = kernel.forward(qkv, shape, *batch);
    return keeping_output([=, g = random_numbers(output.y.sizes(), at::kBFloat16)] {
      return kernel.backward(g, qkv, output.y, output.saved, shape, *batch);
    });
  };
}

AttentionBucket sizes_of(const at::Tensor& qkv, const DeviceBatch& batch) {
  return {batch.cu_seqlens.size(0) - 1, batch.max_seqlen, qkv.size(0)};
}

AttentionOutput exact_forward(const at::Tensor& qkv, const AttentionShape& shape,
                              DeviceBatch& batch) {
  return cudnn_forward_at(sizes_of(qkv, batch), qkv, shape, batch);
}

HeadGradients exact_backward(const at::Tensor& grad_output, const at::Tensor& qkv,
                             const at::Tensor& y, const std::vector<at::Tensor>& saved,
                             const AttentionShape& shape, DeviceBatch& batch) {
  return cudnn_backward_at(sizes_of(qkv, batch), grad_output, qkv, y, saved, shape, batch);
}

AttentionOutput chosen_forward(const at::Tensor& qkv, const AttentionShape& shape,
                               DeviceBatch& batch) {
  return attention_forward(qkv, shape, batch);
}

HeadGradients chosen_backward(const at::Tensor& grad_output, const at::Tensor& qkv,
                              const at::Tensor& y, const std::vector<at::Tensor>& saved,
                              const AttentionShape& shape, DeviceBatch& batch) {
  return attention_backward(grad_output, qkv, y, saved, shape, batch);
}

void add_pack(OpBenchmarks& benchmarks, const Pack& pack, const AttentionShape& shape) {
  const Kernel ours = {chosen_forward, chosen_backward};
  constexpr double kBackwardFactor = 2.5;
  // A multiplication and an addition for each pair in q k^T, and in its product with v.
  const double flops =
      4.0 * static_cast<double>(shape.num_heads * shape.head_dim * pack.pairs(shape.pattern));
  const std::string text =
      fmt::format("{}, {}/{} x {}", pack.name, shape.num_heads, shape.num_kv_heads, shape.head_dim);
  const auto add = [&](const std::string& reference, const Kernel& kernel) {
    benchmarks.push_back({.name = "attention forward",
                          .shape = text,
                          .flops = flops,
                          .make = forward_call(pack, shape, ours),
                          .reference = reference,
                          .make_reference = forward_call(pack, shape, kernel)});
    benchmarks.push_back({.name = "attention backward",
                          .shape = text,
                          .flops = kBackwardFactor * flops,
                          .make = backward_call(pack, shape, ours),
                          .reference = reference,
                          .make_reference = backward_call(pack, shape, kernel)});
  };
  add("FlashAttention-2", {flash_forward, flash_backward});
  add("cuDNN at the pack's sizes", {exact_forward, exact_backward});
}

}  // namespace

void add_attentions(OpBenchmarks& benchmarks) {
  constexpr std::int32_t kTokens = 16384;
  const Pack flan = drawn_lengths("FLAN-like", 5.663, 1.0, kTokens);
  const Pack orca = drawn_lengths("OrcaMath-like", 5.545, 0.5, kTokens);
  const Pack brief = drawn_lengths("short", 5.3, 0.9, kTokens);
  const Pack few = drawn_lengths("short, 4096 tokens", 5.3, 0.9, 4096);
  for (const Pack& pack : {equal_lengths(kTokens, 1), equal_lengths(2048, 8),
                           equal_lengths(512, 32), flan, orca, brief, few}) {
    add_pack(benchmarks, pack, {.num_heads = 32, .num_kv_heads = 8, .head_dim = 128});
  }
  for (const Pack& pack : {equal_lengths(kTokens, 1), flan, brief}) {
    add_pack(benchmarks, pack, {.num_heads = 32, .num_kv_heads = 8, .head_dim = 64});
  }
  add_pack(benchmarks, brief, {.num_heads = 14, .num_kv_heads = 2, .head_dim = 64});
}

}  // namespace packtrain
