// The operators of models/ops as layers use them. Each function records an operator on the block's
// tape: its forward and backward, its parameters, and what estimates need to know of both. `name`
// is that of its output in memory tables and traces, and the start of its parameters' names.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "models/block/operator_tape.h"
#include "models/layers/adapter_targets.h"
#include "models/layers/linear_precision.h"
#include "models/layers/norm.h"
#include "models/ops/activation/activation.h"

namespace packtrain {

// Declares NAME.weight and NAME.bias, if the config has them. `finds_amax`: casts of linear layers
// that read it need its amax (needs_amax).
Value norm(OperatorTape& tape, const std::string& name, Value x, const NormConfig& config,
           bool finds_amax = false);

struct LinearOptions {
  std::int64_t width = 0;  // of the output
  bool bias = false;
  double standard_deviation = 0.02;  // of the initial weights
  bool trained = true;               // false: backward does not need x
  // The low-rank updates of the weight (DecoderConfig::updates_of): none, one, or one for each of
  // several adapters. Dropout is of the input of A, where the batch has row seeds.
  std::vector<WeightUpdate> updates = {};
  // With updates, of the frozen weight alone: products with A and B read the layer's own dtype.
  Fp8Products fp8 = Fp8Products::kNone;
  Fp8Recipe recipe = Fp8Recipe::kTensor;
  // Multiplies the product with the weight. It is 1 unless gemm_may_scale().
  double scale = 1.0;
};

// True where the GEMM itself can multiply its product by LinearOptions::scale: it is the only
// product of a trained weight.
inline bool gemm_may_scale(const LinearOptions& options) {
  return options.trained && !options.bias && options.updates.empty() &&
         options.fp8 == Fp8Products::kNone;
}

// Declares NAME.weight [width, width of x] and NAME.bias [width]. The GEMM itself adds `residual`.
// Throws Error(kInternal) for a scale that it cannot apply.
// With a low-rank update it also declares NAME.lora_A [total rank, width of x], and
// NAME.MODULE.lora_B [rows, rank] for each module (declared_parameters.h). With DoRA it also
// declares NAME.MODULE.lora_magnitude_vector [rows], and records the value NAME.unscaled.
Value linear(OperatorTape& tape, const std::string& name, Value x, const LinearOptions& options,
             std::optional<Value> residual = std::nullopt);

// The neighbours of an activation decide what its kernels find and what estimates count.
struct ActivationNeighbours {
  bool may_peak = true;  // the memory of a step may peak in its backward
  // The products of the linear layers that make x and read y. Their casts get the amax of the
  // gradient of x, and of y, from the activation. At the peak there are their 8-bit copies.
  Fp8Products fp8_before = Fp8Products::kNone;
  Fp8Products fp8_after = Fp8Products::kNone;
  Fp8Recipe recipe = Fp8Recipe::kTensor;
};

Value activation(OperatorTape& tape, const std::string& name, Value x, const Activation& activation,
                 const ActivationNeighbours& neighbours = {});

// The memory of the backward of an activation of x with an output of this shape. Undefined where
// the memory of a step cannot peak there.
using BackwardMemoryOf =
    std::function<BackwardMemory(const MicroBatchShape& size, const RecomputePolicy& policy)>;
BackwardMemoryOf activation_memory(const OperatorTape& tape, Value x, const ValueShape& out,
                                   const ActivationNeighbours& neighbours);

// x + scale y.
Value add(OperatorTape& tape, const std::string& name, Value x, Value y, double scale = 1.0);

// The rows of x [T, H] that have a label, [N, H].
Value select_supervised_rows(OperatorTape& tape, const std::string& name, Value x);

}  // namespace packtrain
