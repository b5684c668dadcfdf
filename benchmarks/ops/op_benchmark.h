// The benchmarks of operator_benchmark: operators at the shapes of real models, one file a family.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "models/block/block.h"

namespace packtrain {

using Call = std::function<void()>;      // launches the operator once
using MakeCall = std::function<Call()>;  // with its own inputs, so that calls can alternate

struct OpBenchmark {
  std::string name;   // "rms_norm forward"
  std::string shape;  // "16384 x 2048"
  double bytes = 0;   // that must move; 0: limited by `flops`
  double flops = 0;   // that must be computed; 0: limited by `bytes`
  MakeCall make = {};
  // For operators limited by operations: the reference, timed alternately with them.
  std::string reference = {};
  MakeCall make_reference = {};
};

using OpBenchmarks = std::vector<OpBenchmark>;

void add_norms(OpBenchmarks& benchmarks);
void add_activations(OpBenchmarks& benchmarks);
void add_positions(OpBenchmarks& benchmarks);
void add_linears(OpBenchmarks& benchmarks);
void add_attentions(OpBenchmarks& benchmarks);
void add_delta_rules(OpBenchmarks& benchmarks);
void add_state_space_models(OpBenchmarks& benchmarks);
void add_experts(OpBenchmarks& benchmarks);
void add_embeddings(OpBenchmarks& benchmarks);
void add_encodings(OpBenchmarks& benchmarks);
void add_fp8(OpBenchmarks& benchmarks);
void add_fp8_blocks(OpBenchmarks& benchmarks);
void add_fp8_experts(OpBenchmarks& benchmarks);
void add_heads(OpBenchmarks& benchmarks);
void add_optimizers(OpBenchmarks& benchmarks);
void add_matrices(OpBenchmarks& benchmarks);

// Standard normal numbers times `scale` on the GPU.
at::Tensor random_numbers(at::IntArrayRef shape, at::ScalarType dtype, double scale = 1.0);
// A bf16 weight of deviation 0.02 with a gradient of `grad_dtype`.
Parameter random_weight(at::IntArrayRef shape, at::ScalarType grad_dtype = at::kBFloat16);
// "16384 x 2048"
std::string shape_text(at::IntArrayRef shape);

// A call that keeps the result of `compute` until its next turn, so that outputs rotate as inputs
// do.
template <typename Compute>
Call keeping_output(Compute compute) {
  using Output = decltype(compute());
  return [compute = std::move(compute), kept = std::make_shared<Output>()] { *kept = compute(); };
}

}  // namespace packtrain
