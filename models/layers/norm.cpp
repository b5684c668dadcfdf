#include "models/layers/norm.h"

#include <ATen/ops/add.h>
#include <ATen/ops/ones.h>

#include <utility>

#include "models/ops/layer_norm/layer_norm.h"
#include "models/ops/rms_norm/rms_norm.h"

namespace packtrain {
namespace {

// A norm without weights uses constant ones. The kernels of layer norms have no offset, so that it
// is added to their weights here.
Parameter weight_of(const NormWeights& weights, const NormConfig& config, const at::Tensor& x) {
  if (weights.weight == nullptr) return {.value = at::ones({x.size(1)}, x.options()), .grad = {}};
  Parameter weight = *weights.weight;
  if (config.kind == NormKind::kLayer && config.weight_offset != 0) {
    weight.value = at::add(weight.value, config.weight_offset);
  }
  return weight;
}

RmsNormOptions rms_options(const NormConfig& config) {
  return {.epsilon = config.epsilon, .weight_offset = config.weight_offset};
}

}  // namespace

NormOutput norm_forward(const at::Tensor& x, const NormWeights& weights, const NormConfig& config,
                        const at::Tensor& amax) {
  const Parameter weight = weight_of(weights, config, x);
  if (config.kind == NormKind::kRms) {
    RmsNormOutput output = rms_norm_forward(x, weight, rms_options(config), amax);
    return {std::move(output.y), {std::move(output.inverse_rms)}};
  }
  LayerNormOutput output =
      layer_norm_forward(x, weight, weights.bias, {.epsilon = config.epsilon}, amax);
  return {std::move(output.y), {std::move(output.mean), std::move(output.inverse_deviation)}};
}

at::Tensor norm_backward(const at::Tensor& grad_output, const at::Tensor& x,
                         const std::vector<at::Tensor>& statistics, const NormWeights& weights,
                         const NormConfig& config, const at::Tensor& grad_residual,
                         const at::Tensor& recomputed_output) {
  const Parameter weight = weight_of(weights, config, x);
  if (config.kind == NormKind::kRms) {
    return rms_norm_backward(grad_output, x, statistics.at(0), weight, rms_options(config),
                             grad_residual, recomputed_output);
  }
  return layer_norm_backward(grad_output, x, statistics.at(0), statistics.at(1), weight,
                             weights.bias, grad_residual, recomputed_output);
}

}  // namespace packtrain
