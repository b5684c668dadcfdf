// What operator_benchmark times: operators at the shapes of real models, one file a family.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "models/block.h"

namespace packtrain {

using Call = std::function<void()>;      // queues the operator once
using MakeCall = std::function<Call()>;  // with inputs of its own, so that calls can take turns

struct OpBenchmark {
  std::string name;   // "rms_norm forward"
  std::string shape;  // "16384 x 2048"
  double bytes = 0;   // that must move; 0: bound by `flops`
  double flops = 0;   // that must be done; 0: bound by `bytes`
  MakeCall make = {};
  // Where operations bound it: what it is held against, timed in turns with it.
  std::string reference = {};
  MakeCall make_reference = {};
};

using OpBenchmarks = std::vector<OpBenchmark>;

void add_norms(OpBenchmarks& benchmarks);
void add_activations(OpBenchmarks& benchmarks);
void add_positions(OpBenchmarks& benchmarks);
void add_linears(OpBenchmarks& benchmarks);
void add_attentions(OpBenchmarks& benchmarks);
void add_experts(OpBenchmarks& benchmarks);
void add_embeddings(OpBenchmarks& benchmarks);
void add_heads(OpBenchmarks& benchmarks);
void add_optimizers(OpBenchmarks& benchmarks);

// Standard normal numbers times `scale` on the GPU.
at::Tensor random_numbers(at::IntArrayRef shape, at::ScalarType dtype, double scale = 1.0);
// A bf16 weight of deviation 0.02 with a gradient of `grad_dtype`.
Parameter random_weight(at::IntArrayRef shape, at::ScalarType grad_dtype = at::kBFloat16);
// "16384 x 2048"
std::string shape_text(at::IntArrayRef shape);

// A call that keeps what `compute` returned until its next turn: outputs rotate as inputs do.
template <typename Compute>
Call keeping_output(Compute compute) {
  using Output = decltype(compute());
  return [compute = std::move(compute), kept = std::make_shared<Output>()] { *kept = compute(); };
}

}  // namespace packtrain
