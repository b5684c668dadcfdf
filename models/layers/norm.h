// The norm of a family: RMS or layer norm, with or without weights, as NormConfig says.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "models/block/block.h"
#include "models/layers/decoder_config.h"

namespace packtrain {

struct NormWeights {
  const Parameter* weight = nullptr;  // [H]; null: 1
  const Parameter* bias = nullptr;    // [H]; null: 0
};

struct NormOutput {
  at::Tensor y;                        // [T, H], as x
  std::vector<at::Tensor> statistics;  // float32 [T, 1] each, for backward
};

// Also writes the amax of y to `amax` (make_fp8_amax() in ops/fp8/fp8.h), when it is defined.
NormOutput norm_forward(const at::Tensor& x, const NormWeights& weights, const NormConfig& config,
                        const at::Tensor& amax = {});
// Writes the gradients of the weights. Returns dx, plus grad_residual when it is defined. Writes y
// to `recomputed_output` [T, H] when it is defined.
at::Tensor norm_backward(const at::Tensor& grad_output, const at::Tensor& x,
                         const std::vector<at::Tensor>& statistics, const NormWeights& weights,
                         const NormConfig& config, const at::Tensor& grad_residual = {},
                         const at::Tensor& recomputed_output = {});

// Statistics that norm_forward saves for each row.
inline std::int64_t num_statistics(const NormConfig& config) {
  return config.kind == NormKind::kRms ? 1 : 2;
}

}  // namespace packtrain
