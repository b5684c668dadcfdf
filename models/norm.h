// The norm of a family: RMS or layer norm, with or without weights (NormConfig says which).
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "models/block.h"
#include "models/decoder_config.h"

namespace packtrain {

struct NormWeights {
  const Parameter* weight = nullptr;  // [H]; null: 1
  const Parameter* bias = nullptr;    // [H]; null: 0
};

struct NormOutput {
  at::Tensor y;                        // [T, H], as x
  std::vector<at::Tensor> statistics;  // float32 [T, 1] each, for backward
};

NormOutput norm_forward(const at::Tensor& x, const NormWeights& weights, const NormConfig& config);
// Writes the weights' gradients, returns dx (with grad_residual added, when defined).
// `recomputed_output` [T, H], when defined, receives y once more.
at::Tensor norm_backward(const at::Tensor& grad_output, const at::Tensor& x,
                         const std::vector<at::Tensor>& statistics, const NormWeights& weights,
                         const NormConfig& config, const at::Tensor& grad_residual = {},
                         const at::Tensor& recomputed_output = {});

// Numbers that norm_forward keeps of a row.
inline std::int64_t num_statistics(const NormConfig& config) {
  return config.kind == NormKind::kRms ? 1 : 2;
}

}  // namespace packtrain
