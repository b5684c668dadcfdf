#include "training/verification/precision_report.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <utility>

#include "framework/config/adapters.h"
#include "framework/core/error.h"
#include "framework/core/logging.h"
#include "framework/device/tensor_device.h"
#include "models/ops/fp8/fp8_block.h"
#include "training/setup/linear_precision_log.h"
#include "training/verification/measure.h"

namespace packtrain {
namespace {

// layers.3.mlp.down.weight -> layers.3, embed.weight -> embed.
std::string layer_of(const std::string& parameter) {
  const std::size_t first = parameter.find('.');
  if (!parameter.starts_with("layers.")) return parameter.substr(0, first);
  return parameter.substr(0, parameter.find('.', first + 1));
}

bool has_blocks(const RunDevice& device) {
  try {
    check_fp8_block_device(tensor_device(*device.device));
  } catch (const Error& error) {
    log_info("fp8_block is left out: {}", error.message());
    return false;
  }
  return true;
}

Measured measure(Config config, ModelSource source, const RunDevice& device,
                 const VerifiedStep& step, const PrecisionSection& precision) {
  config.precision = precision;
  source.decoder.linear = linear_precision(precision);
  SingleRankModel model(config, source, device);
  return measure_step(model.model(), *device.device, step.all_packed());
}

PrecisionSection in_float32(PrecisionSection precision) {
  precision.compute = precision.reduce = Precision::kFloat32;
  precision.linear = LinearProducts::kBFloat16;
  precision.weight_gradient = WeightGradientProducts::kBFloat16;
  return precision;
}

// Squared norms, by layer.
struct SquaredNorms {
  std::map<std::string, double> of_layers;
  double of_all = 0;

  void add(const std::string& parameter, double norm) {
    of_layers[layer_of(parameter)] += norm * norm;
    of_all += norm * norm;
  }
};

// A gradient of zeros has no error: that of A where B is zero.
double relative_norm(double difference, double reference) {
  if (difference == 0) return 0;
  return std::sqrt(difference / reference);
}

// 8-bit weights have a part of their own in a unit, so the order of parameters differs.
RecipeErrors errors_of(const PrecisionRecipe& recipe, const Measured& got, const Measured& want,
                       const std::vector<std::string>& layers) {
  const at::NoGradGuard no_grad;
  SquaredNorms difference;
  SquaredNorms reference;
  std::map<std::string, at::Tensor> found;
  for (const OwnedGradient& gradient : got.gradients) found[gradient.parameter] = gradient.values;
  for (const OwnedGradient& of : want.gradients) {
    difference.add(of.parameter, found.at(of.parameter).sub(of.values).norm().item<double>());
    reference.add(of.parameter, of.values.norm().item<double>());
  }
  RecipeErrors errors{recipe.name,
                      std::abs(got.loss - want.loss) / std::abs(want.loss),
                      relative_norm(difference.of_all, reference.of_all),
                      {}};
  for (const std::string& layer : layers) {
    errors.by_layer.push_back(
        relative_norm(difference.of_layers.at(layer), reference.of_layers.at(layer)));
  }
  return errors;
}

// In the order of the model's units. One has the embedding, and the head where it shares weights.
std::vector<std::string> layers_of(const Measured& measured) {
  std::vector<std::string> layers;
  for (const OwnedGradient& gradient : measured.gradients) {
    const std::string layer = layer_of(gradient.parameter);
    if (std::ranges::find(layers, layer) == layers.end()) layers.push_back(layer);
  }
  std::ranges::stable_partition(
      layers, [](const std::string& layer) { return layer != "final_norm" && layer != "head"; });
  return layers;
}

}  // namespace

std::vector<PrecisionRecipe> precision_recipes(const Config& config, bool has_blocks) {
  std::vector<PrecisionRecipe> recipes;
  const auto add = [&](std::string name, LinearProducts linear, WeightGradientProducts gradient) {
    PrecisionSection precision = config.precision;
    precision.compute = precision.reduce = Precision::kBFloat16;
    precision.linear = linear;
    precision.weight_gradient = gradient;
    recipes.push_back({std::move(name), precision});
  };
  add("bf16", LinearProducts::kBFloat16, WeightGradientProducts::kBFloat16);
  add("fp8_tensor", LinearProducts::kFp8Tensor, WeightGradientProducts::kBFloat16);
  if (!trains_adapter(config) || !config.adapter.save.empty()) {
    add("fp8_tensor, weight_gradient: fp8", LinearProducts::kFp8Tensor,
        WeightGradientProducts::kFp8);
  }
  if (trains_adapter(config) || !has_blocks) return recipes;
  add("fp8_block", LinearProducts::kFp8Block, WeightGradientProducts::kBFloat16);
  add("fp8_block, weight_gradient: fp8", LinearProducts::kFp8Block, WeightGradientProducts::kFp8);
  add("fp8_block, weight_gradient: fp8_block", LinearProducts::kFp8Block,
      WeightGradientProducts::kFp8Block);
  return recipes;
}

PrecisionReport measure_precision(const Config& config, const ModelSource& source,
                                  const RunDevice& device, const VerifiedStep& step,
                                  const std::function<void()>& begin_recipe) {
  PrecisionReport report;
  report.num_examples = step.plan.num_examples;
  Config plain = config;
  const auto& adapter = source.decoder.adapter;
  if (adapter == nullptr || !is_from_base(adapter->initialization)) {
    plain.model.base = BaseStorage::kBFloat16;
  }
  begin_recipe();
  log_info("the step in float32");
  const Measured reference = measure(plain, source, device, step, in_float32(config.precision));
  report.loss = reference.loss;
  report.layers = layers_of(reference);
  for (const PrecisionRecipe& recipe : precision_recipes(config, has_blocks(device))) {
    begin_recipe();
    log_info("the step in {}", recipe.name);
    report.recipes.push_back(errors_of(
        recipe, measure(config, source, device, step, recipe.precision), reference, report.layers));
  }
  return report;
}

}  // namespace packtrain
