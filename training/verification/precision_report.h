// The error of a step's loss and gradients in each recipe of precision, measured against float32.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "framework/config/config.h"
#include "training/setup/model_source.h"
#include "training/setup/run_device.h"
#include "training/verification/verified_step.h"

namespace packtrain {

// Dtypes of weights and activations, and what the products of linear layers read.
struct PrecisionRecipe {
  std::string name;  // fp8_tensor, weight_gradient: fp8
  PrecisionSection precision;
};

// bf16, and 8-bit products with each format of the weight's gradient. Frozen weights under an
// adapter have none, and there is one recipe of 8-bit products. `has_blocks`: fp8_block too.
std::vector<PrecisionRecipe> precision_recipes(const Config& config, bool has_blocks);

struct RecipeErrors {
  std::string name;
  double loss = 0;               // |difference| / |loss| of the step
  double gradient = 0;           // norm of the difference of all gradients / their norm
  std::vector<double> by_layer;  // the same of each layer's parameters
};

struct PrecisionReport {
  std::int64_t num_examples = 0;
  double loss = 0;                  // in float32, as the run normalizes it
  std::vector<std::string> layers;  // embed, layers.0, ..., head
  std::vector<RecipeErrors> recipes;
};

// Runs the first step's packed batches on one device in float32, and then in each recipe. A recipe
// rounds the initial weights too. The reference has unencoded weights, unless initial values of the
// adapter come from encoded ones. Holds one model at a time. Throws Error(kConfig) and
// Error(kDevice) where the model or the device cannot have 8-bit products. Calls `begin_recipe`
// before each measurement.
PrecisionReport measure_precision(const Config& config, const ModelSource& source,
                                  const RunDevice& device, const VerifiedStep& step,
                                  const std::function<void()>& begin_recipe);

}  // namespace packtrain
