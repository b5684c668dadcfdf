// Settings of the section optimizer.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/config/precision_section.h"

namespace packtrain {

// Values of optimizer.name.
inline constexpr std::array kOptimizerNames = {"adamw", "muon", "lion", "sophia", "adafactor"};

// Data types of moments. kInt8: of AdamW alone; those of the others are then bfloat16.
enum class Moments { kFloat32, kBFloat16, kInt8 };
constexpr Moments moments_of(Precision precision) {
  return precision == Precision::kFloat32 ? Moments::kFloat32 : Moments::kBFloat16;
}
// Returns the type of moments that are not AdamW's.
constexpr DataType wide_type(Moments moments) {
  return moments == Moments::kFloat32 ? DataType::kFloat32 : DataType::kBFloat16;
}

// An entry of optimizer.groups: other settings for some parameters.
struct OptimizerGroupSetting {
  std::string match;  // names of parameters; `*` matches any text
  // Nothing: that of the section.
  std::optional<std::string> name = {};
  std::optional<double> learning_rate = {};  // peak
  std::optional<double> weight_decay = {};

  bool operator==(const OptimizerGroupSetting&) const = default;
};

struct OptimizerSection {
  std::string name = "adamw";
  double learning_rate = 1.0e-5;
  std::array<double, 2> betas = {0.9, 0.95};
  double epsilon = 1.0e-8;
  double momentum = 0.95;  // of muon
  double weight_decay = 0.1;
  bool decay_norms_and_biases = false;
  double max_grad_norm = 1.0;                 // 0 switches clipping off
  Moments moments = Moments::kFloat32;        // bf16: rounded stochastically
  std::vector<OptimizerGroupSetting> groups;  // the first one that matches a parameter counts
  double gamma = 0.05;                        // of sophia, as the next two
  std::int64_t hessian_every = 10;            // optimizer steps
  double hessian_share = 0.5;                 // of a step's examples
  double router_bias_update_rate = 0;         // 0: biases of routers do not change
};

// True if moments are rounded with random bits (training/optimizers/stochastic_rounding.h).
inline bool rounds_moments_at_random(const OptimizerSection& optimizer) {
  if (optimizer.moments != Moments::kInt8) return optimizer.moments == Moments::kBFloat16;
  const auto has_codes = [](const OptimizerGroupSetting& group) {
    return group.name.value_or("adamw") == "adamw";
  };
  return optimizer.name != "adamw" || !std::ranges::all_of(optimizer.groups, has_codes);
}

// True if it is the optimizer of the section or of a group.
inline bool uses_optimizer(const OptimizerSection& optimizer, std::string_view name) {
  const auto has_name = [&](const OptimizerGroupSetting& group) { return group.name == name; };
  return optimizer.name == name || std::ranges::any_of(optimizer.groups, has_name);
}

// True if an optimizer of the run has factored second moments (training/optimizers/adafactor.h).
inline bool has_factored_moments(const OptimizerSection& optimizer) {
  return uses_optimizer(optimizer, "adafactor");
}

}  // namespace packtrain
