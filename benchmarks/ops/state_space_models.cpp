// Mamba-2's state space model, its gated norm and LFM2's short convolution, over packed documents.
// Sizes are those of Granite-4.0-H-Micro and of LFM2-1.2B.
#include <ATen/ops/empty_like.h>
#include <ATen/ops/softplus.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "benchmarks/ops/documents.h"
#include "benchmarks/ops/op_benchmark.h"
#include "models/ops/gated_norm/product_norm.h"
#include "models/ops/mamba2/ssd.h"
#include "models/ops/short_conv/short_conv.h"

namespace packtrain {
namespace {

constexpr std::int64_t kSsdHeads = 64;
constexpr std::int64_t kSsdColumns = 64;
constexpr std::int64_t kSsdState = 128;
constexpr std::int64_t kShortChannels = 2048;
constexpr std::int64_t kShortWidth = 3;

SsdInputs random_ssd_inputs(std::int64_t tokens) {
  constexpr double kMeanDecay = 0.05;
  return {random_numbers({tokens, kSsdHeads, kSsdColumns}, at::kBFloat16),
          random_numbers({tokens, 1, kSsdState}, at::kBFloat16),
          random_numbers({tokens, 1, kSsdState}, at::kBFloat16),
          at::softplus(random_numbers({tokens, kSsdHeads}, at::kFloat)),
          random_numbers({tokens, kSsdHeads}, at::kFloat).abs_().mul_(-kMeanDecay)};
}

// Multiply-adds of the recurrence, an addition and a multiplication each.
double ssd_flops(std::int64_t tokens) {
  constexpr double kProducts = 2;  // b u^T and S^T c
  return 2 * kProducts * static_cast<double>(tokens * kSsdHeads * kSsdColumns * kSsdState);
}

Parameter ones_of_heads() {
  Parameter skip = random_weight({kSsdHeads});
  skip.value = skip.value.to(at::kFloat);
  skip.grad = at::empty_like(skip.value);
  return skip;
}

void add_state_space_model(OpBenchmarks& benchmarks, const Documents& documents) {
  const std::int64_t tokens = documents.tokens();
  benchmarks.push_back({.name = "state space model forward",
                        .shape = documents.name,
                        .flops = ssd_flops(tokens),
                        .make = [=] {
                          return keeping_output(
                              [=, in = random_ssd_inputs(tokens), skip = ones_of_heads()] {
                                return ssd_forward(in, skip, {documents.boundaries});
                              });
                        }});
  benchmarks.push_back(
      {.name = "state space model backward",
       .shape = documents.name,
       .flops = 2 * ssd_flops(tokens),
       .make = [=] {
         return keeping_output(
             [=, in = random_ssd_inputs(tokens), skip = ones_of_heads(),
              grad = random_numbers({tokens, kSsdHeads, kSsdColumns}, at::kBFloat16)] {
               const SsdInputs grads = {at::empty_like(in.x), at::empty_like(in.b),
                                        at::empty_like(in.c), at::empty_like(in.steps),
                                        at::empty_like(in.g)};
               ssd_backward(grad, in, skip, {documents.boundaries}, grads);
               return grads.x;
             });
       }});
}

void add_short_conv(OpBenchmarks& benchmarks, const Documents& documents) {
  const std::int64_t tokens = documents.tokens();
  const auto bytes = 2.0 * static_cast<double>(tokens * kShortChannels);
  const auto random_rows = [tokens](std::int64_t parts) {
    return random_numbers({tokens, parts * kShortChannels}, at::kBFloat16);
  };
  benchmarks.push_back(
      {.name = "short convolution forward",
       .shape = documents.name,
       .bytes = 4 * bytes,
       .make = [=] {
         return keeping_output(
             [=, in = random_rows(3), weight = random_weight({kShortChannels, kShortWidth})] {
               return short_conv_forward(in, {weight}, {documents.boundaries, /*silu=*/false});
             });
       }});
  benchmarks.push_back(
      {.name = "short convolution backward",
       .shape = documents.name,
       .bytes = 7 * bytes,
       .make = [=] {
         return keeping_output([=, in = random_rows(3), grad = random_rows(1),
                                weight = random_weight({kShortChannels, kShortWidth})] {
           return short_conv_backward(grad, in, {weight}, {documents.boundaries, /*silu=*/false});
         });
       }});
}

// The norm of Mamba-2's gated output, with the gate in rows of the whole projection.
void add_product_norm(OpBenchmarks& benchmarks, std::int64_t tokens, std::int64_t width,
                      std::int64_t parts) {
  const auto rows = [tokens](std::int64_t columns) {
    return random_numbers({tokens, columns}, at::kBFloat16);
  };
  const double bytes = 2.0 * static_cast<double>(tokens * width);
  const std::string shape = fmt::format("{} x {}, {} parts", tokens, width, parts);
  benchmarks.push_back(
      {.name = "norm of a gated product forward", .shape = shape, .bytes = 3 * bytes, .make = [=] {
         return keeping_output(
             [=, x = rows(width), z = rows(2 * width), weight = random_weight({width})] {
               return product_norm_forward(x, z.narrow(1, 0, width), weight, {1e-5, parts});
             });
       }});
  benchmarks.push_back(
      {.name = "norm of a gated product backward", .shape = shape, .bytes = 5 * bytes, .make = [=] {
         return keeping_output([=, x = rows(width), z = rows(2 * width), grad = rows(width),
                                grad_z = rows(2 * width), weight = random_weight({width})] {
           return product_norm_backward(grad, x, z.narrow(1, 0, width), weight, {1e-5, parts},
                                        grad_z.narrow(1, 0, width));
         });
       }});
}

}  // namespace

void add_state_space_models(OpBenchmarks& benchmarks) {
  constexpr std::int32_t kTokens = 8192;
  const std::vector<Documents> all = {rising_documents(130, kTokens),
                                      rising_documents(475, kTokens),
                                      {"one document of 8192 tokens", {0, kTokens}}};
  for (const Documents& documents : all) add_state_space_model(benchmarks, documents);
  for (const Documents& documents : all) add_short_conv(benchmarks, documents);
  add_product_norm(benchmarks, 2 * kTokens, 4096, 1);
  add_product_norm(benchmarks, 2 * kTokens, 8192, 8);
}

}  // namespace packtrain
