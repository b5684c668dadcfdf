// Attention over packed documents, compared with libtorch's FlashAttention-2 and with cuDNN's plan
// for exactly the sizes of the pack. Attention over groups whose examples share the rows of a
// prompt, compared with copies of these rows.
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
#include "models/ops/attention/plain.h"

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

constexpr double kBackwardFactor = 2.5;

struct Kernel {
  // FlashAttention's take a const batch, the others fill its state.
  std::function<AttentionOutput(const at::Tensor&, const AttentionShape&, DeviceBatch&)> forward;
  std::function<HeadGradients(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                              const std::vector<at::Tensor>&, const AttentionShape&, DeviceBatch&)>
      backward;
};

using MakeBatch = std::function<std::shared_ptr<DeviceBatch>()>;

at::Tensor random_heads(const DeviceBatch& batch, const AttentionShape& shape) {
  const std::int64_t num_all = shape.num_heads + 2 * shape.num_kv_heads;
  return random_numbers({batch.cu_seqlens_host.back(), num_all, shape.head_dim}, at::kBFloat16);
}

MakeCall forward_call(const MakeBatch& make, const AttentionShape& shape, const Kernel& kernel) {
  return [=] {
    const auto batch = make();
    return keeping_output(
        [=, qkv = random_heads(*batch, shape)] { return kernel.forward(qkv, shape, *batch); });
  };
}

MakeCall backward_call(const MakeBatch& make, const AttentionShape& shape, const Kernel& kernel) {
  return [=] {
    const auto batch = make();
    const at::Tensor qkv = random_heads(*batch, shape);
    const AttentionOutput output = kernel.forward(qkv, shape, *batch);
    return keeping_output([=, g = random_numbers(output.y.sizes(), at::kBFloat16)] {
      return kernel.backward(g, qkv, output.y, output.saved, shape, *batch);
    });
  };
}

// Groups of answers to prompts of `prompt` tokens.
struct Groups {
  std::string name;
  std::int32_t prompt = 0;
  std::vector<Lengths> answers;  // of each group

  // All rows of an example, with its own copy of the prompt.
  Pack copied() const {
    Pack pack{name, {}};
    for (const Lengths& group : answers) {
      for (const std::int32_t answer : group) pack.lengths.push_back(prompt + answer);
    }
    return pack;
  }
  // The prompt, then the rest of each example.
  Pack shared() const {
    Pack pack{name, {}};
    for (const Lengths& group : answers) {
      pack.lengths.push_back(prompt);
      pack.lengths.insert(pack.lengths.end(), group.begin(), group.end());
    }
    return pack;
  }
};

std::shared_ptr<DeviceBatch> make_shared_batch(const Groups& groups) {
  const auto batch = make_batch(groups.shared());
  std::size_t segment = 0;
  for (const Lengths& group : groups.answers) {
    const std::int64_t begin = batch->cu_seqlens_host[segment++];
    for (const std::int32_t answer : group) {
      batch->prefixes.push_back(
          {static_cast<std::int64_t>(segment++), {{begin, begin + groups.prompt}}});
      batch->max_seqlen = std::max(batch->max_seqlen, groups.prompt + answer);
    }
  }
  return batch;
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

// Sequences of up to `max_keys` tokens by the kernels for short ones, the others by cuDNN.
void add_divided(OpBenchmarks& benchmarks, const Pack& pack, const AttentionShape& shape,
                 const std::string& text, double flops) {
  const MakeBatch make = [pack] { return make_batch(pack); };
  for (const std::int64_t max_keys : {256, 512, 1024}) {
    const auto backward = [max_keys](const at::Tensor& grad_output, const at::Tensor& qkv,
                                     const at::Tensor& y, const std::vector<at::Tensor>& saved,
                                     const AttentionShape& of, DeviceBatch& batch) {
      return divided_backward(max_keys, grad_output, qkv, y, saved, of, batch, {});
    };
    benchmarks.push_back(
        {.name = "divided attention backward",
         .shape = fmt::format("{}, short to {}", text, max_keys),
         .flops = kBackwardFactor * flops,
         .make = backward_call(make, shape, {chosen_forward, backward}),
         .reference = "cuDNN at the pack's sizes",
         .make_reference = backward_call(make, shape, {exact_forward, exact_backward})});
  }
}

// A multiplication and an addition for each pair in q k^T, and in its product with v.
double forward_flops(const Pack& pack, const AttentionShape& shape) {
  return 4.0 * static_cast<double>(shape.num_heads * shape.head_dim * pack.pairs(shape.pattern));
}

std::string text_of(const Pack& pack, const AttentionShape& shape) {
  return fmt::format("{}, {}/{} x {}", pack.name, shape.num_heads, shape.num_kv_heads,
                     shape.head_dim);
}

void add_against(OpBenchmarks& benchmarks, const Pack& pack, const AttentionShape& shape,
                 const std::string& reference, const Kernel& kernel) {
  const Kernel ours = {chosen_forward, chosen_backward};
  const MakeBatch make = [pack] { return make_batch(pack); };
  const std::string name = shape.head_dim > 256 ? "wide attention" : "attention";
  benchmarks.push_back({.name = name + " forward",
                        .shape = text_of(pack, shape),
                        .flops = forward_flops(pack, shape),
                        .make = forward_call(make, shape, ours),
                        .reference = reference,
                        .make_reference = forward_call(make, shape, kernel)});
  benchmarks.push_back({.name = name + " backward",
                        .shape = text_of(pack, shape),
                        .flops = kBackwardFactor * forward_flops(pack, shape),
                        .make = backward_call(make, shape, ours),
                        .reference = reference,
                        .make_reference = backward_call(make, shape, kernel)});
}

void add_pack(OpBenchmarks& benchmarks, const Pack& pack, const AttentionShape& shape) {
  add_divided(benchmarks, pack, shape, text_of(pack, shape), forward_flops(pack, shape));
  add_against(benchmarks, pack, shape, "FlashAttention-2", {flash_forward, flash_backward});
  add_against(benchmarks, pack, shape, "cuDNN at the pack's sizes",
              {exact_forward, exact_backward});
}

// `speed` is that of the copies' time: how much faster a layer's attention is on the same examples.
void add_groups(OpBenchmarks& benchmarks, const Groups& groups, const AttentionShape& shape) {
  const Kernel ours = {chosen_forward, chosen_backward};
  const MakeBatch shared = [groups] { return make_shared_batch(groups); };
  const MakeBatch copied = [groups] { return make_batch(groups.copied()); };
  const std::int64_t of_prompt = shape.pattern.pairs(groups.prompt);
  std::int64_t pairs = 0;
  for (const Lengths& group : groups.answers) {
    pairs += of_prompt;
    for (const std::int32_t answer : group) {
      pairs += shape.pattern.pairs(groups.prompt + answer) - of_prompt;
    }
  }
  const double flops = 4.0 * static_cast<double>(shape.num_heads * shape.head_dim * pairs);
  const std::string text = fmt::format("{}, {}/{} x {}", groups.name, shape.num_heads,
                                       shape.num_kv_heads, shape.head_dim);
  benchmarks.push_back({.name = "attention of shared prompts forward",
                        .shape = text,
                        .flops = flops,
                        .make = forward_call(shared, shape, ours),
                        .reference = "copies of the prompts",
                        .make_reference = forward_call(copied, shape, ours)});
  benchmarks.push_back({.name = "attention of shared prompts backward",
                        .shape = text,
                        .flops = kBackwardFactor * flops,
                        .make = backward_call(shared, shape, ours),
                        .reference = "copies of the prompts",
                        .make_reference = backward_call(copied, shape, ours)});
}

// Answers of lengths from lognormal(6, 1), clipped to 8..4,096.
Groups drawn_groups(const std::string& name, std::int32_t prompt, std::size_t num_groups,
                    std::size_t num_answers) {
  const Pack drawn = drawn_lengths(name, 6.0, 1.0, std::int32_t{1} << 20);
  Groups groups{name, prompt, {}};
  for (std::size_t g = 0; g < num_groups; ++g) {
    const auto begin = drawn.lengths.begin() + static_cast<std::ptrdiff_t>(g * num_answers);
    groups.answers.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(num_answers));
  }
  return groups;
}

}  // namespace

void add_attentions(OpBenchmarks& benchmarks) {
  constexpr std::int32_t kTokens = 16384;
  const Pack flan = drawn_lengths("FLAN-like", 5.663, 1.0, kTokens);
  const Pack orca = drawn_lengths("OrcaMath-like", 5.545, 0.5, kTokens);
  const Pack brief = drawn_lengths("short", 5.3, 0.9, kTokens);
  const Pack few = drawn_lengths("short, 4096 tokens", 5.3, 0.9, 4096);
  const Pack briefest = drawn_lengths("lognormal(4.6, 0.7)", 4.6, 0.7, kTokens);
  for (const Pack& pack :
       {equal_lengths(kTokens, 1), equal_lengths(2048, 8), equal_lengths(512, 32),
        equal_lengths(128, 128), flan, orca, brief, few, briefest}) {
    add_pack(benchmarks, pack, {.num_heads = 32, .num_kv_heads = 8, .head_dim = 128});
  }
  for (const Pack& pack : {equal_lengths(kTokens, 1), flan, brief}) {
    add_pack(benchmarks, pack, {.num_heads = 32, .num_kv_heads = 8, .head_dim = 64});
  }
  add_pack(benchmarks, brief, {.num_heads = 14, .num_kv_heads = 2, .head_dim = 64});
  for (const Pack& pack : {equal_lengths(kTokens, 1), equal_lengths(2048, 8), flan}) {
    add_against(benchmarks, pack, {.num_heads = 8, .num_kv_heads = 1, .head_dim = 512},
                "the plain formula", {plain_forward, plain_backward});
  }
  const Groups pairs = {"21 x (512 + 2 x 128)", 512, std::vector<Lengths>(21, {128, 128})};
  const Groups rollouts = drawn_groups("3 x (512 + 8 rollouts)", 512, 3, 8);
  for (const Groups& groups : {pairs, rollouts}) {
    add_groups(benchmarks, groups, {.num_heads = 32, .num_kv_heads = 8, .head_dim = 128});
  }
}

}  // namespace packtrain
