// The gated delta rule and its causal convolution over packed documents, at the sizes of
// Qwen3-Next. benchmarks/peers/delta_rule.py times flash-linear-attention's kernels on the same
// documents.
#include <ATen/ops/empty_like.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/sigmoid.h>

#include <cmath>
#include <vector>

#include "benchmarks/ops/documents.h"
#include "benchmarks/ops/op_benchmark.h"
#include "models/ops/delta_rule/causal_conv.h"
#include "models/ops/delta_rule/delta_rule.h"

namespace packtrain {
namespace {

constexpr std::int64_t kKeyHeads = 16;
constexpr std::int64_t kHeads = 32;
constexpr std::int64_t kHeadDim = 128;
constexpr std::int64_t kConvChannels = (2 * kKeyHeads + kHeads) * kHeadDim;
constexpr std::int64_t kConvWidth = 4;

at::Tensor unit_heads(std::int64_t tokens) {
  const at::Tensor x = random_numbers({tokens, kKeyHeads, kHeadDim}, at::kBFloat16);
  return x.div_(at::linalg_vector_norm(x, 2, at::IntArrayRef{2}, /*keepdim=*/true));
}

DeltaRuleInputs random_inputs(std::int64_t tokens) {
  constexpr double kMeanDecay = 0.05;
  return {unit_heads(tokens), unit_heads(tokens),
          random_numbers({tokens, kHeads, kHeadDim}, at::kBFloat16),
          random_numbers({tokens, kHeads}, at::kFloat).abs_().mul_(-kMeanDecay),
          at::sigmoid(random_numbers({tokens, kHeads}, at::kFloat))};
}

// Multiply-adds of the recurrence, an addition and a multiplication each.
double recurrence_flops(std::int64_t tokens) {
  constexpr double kProducts = 3;  // S^T k, k d^T and S^T q
  return 2 * kProducts * static_cast<double>(tokens * kHeads * kHeadDim * kHeadDim);
}

void add_delta_rule(OpBenchmarks& benchmarks, const Documents& documents) {
  const std::int64_t tokens = documents.tokens();
  const double scale = 1.0 / std::sqrt(static_cast<double>(kHeadDim));
  benchmarks.push_back({.name = "delta rule forward",
                        .shape = documents.name,
                        .flops = recurrence_flops(tokens),
                        .make = [=] {
                          return keeping_output([=, in = random_inputs(tokens)] {
                            return delta_rule_forward(in, {documents.boundaries, scale});
                          });
                        }});
  benchmarks.push_back({.name = "delta rule backward",
                        .shape = documents.name,
                        .flops = 2 * recurrence_flops(tokens),
                        .make = [=] {
                          return keeping_output(
                              [=, in = random_inputs(tokens),
                               grad = random_numbers({tokens, kHeads, kHeadDim}, at::kBFloat16)] {
                                return delta_rule_backward(grad, in, {documents.boundaries, scale});
                              });
                        }});
}

void add_causal_conv(OpBenchmarks& benchmarks, const Documents& documents) {
  const std::int64_t tokens = documents.tokens();
  const auto bytes = 2.0 * static_cast<double>(tokens * kConvChannels);
  const auto random_rows = [tokens] {
    return random_numbers({tokens, kConvChannels}, at::kBFloat16);
  };
  benchmarks.push_back(
      {.name = "causal convolution forward",
       .shape = documents.name,
       .bytes = 2 * bytes,
       .make = [=] {
         return keeping_output(
             [=, x = random_rows(), weight = random_weight({kConvChannels, kConvWidth})] {
               return causal_conv_forward(x, {weight}, {documents.boundaries});
             });
       }});
  benchmarks.push_back(
      {.name = "causal convolution backward",
       .shape = documents.name,
       .bytes = 3 * bytes,
       .make = [=] {
         return keeping_output([=, x = random_rows(), grad = random_rows(),
                                weight = random_weight({kConvChannels, kConvWidth})] {
           at::Tensor grad_x = at::empty_like(x);
           causal_conv_backward(grad, x, {weight}, {documents.boundaries}, grad_x);
           return grad_x;
         });
       }});
}

}  // namespace

void add_delta_rules(OpBenchmarks& benchmarks) {
  constexpr std::int32_t kTokens = 8192;
  const std::vector<Documents> all = {rising_documents(130, kTokens),
                                      rising_documents(475, kTokens),
                                      {"one document of 8192 tokens", {0, kTokens}},
                                      rising_documents(130, 2 * kTokens)};
  for (const Documents& documents : all) add_delta_rule(benchmarks, documents);
  for (const Documents& documents : all) add_causal_conv(benchmarks, documents);
}

}  // namespace packtrain
