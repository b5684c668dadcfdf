// Settings of optimizer.name: sophia.
#pragma once

#include "framework/config/checks.h"
#include "framework/config/config.h"

namespace packtrain {

// True when the optimizer of any parameter estimates a Hessian from gradients of its own.
inline bool has_hessian(const OptimizerSection& optimizer) {
  return uses_optimizer(optimizer, "sophia");
}

// Compute of the estimate in the mean step, as a share of the step's own.
inline double hessian_compute_share(const OptimizerSection& optimizer) {
  if (!has_hessian(optimizer)) return 0;
  return optimizer.hessian_share / static_cast<double>(optimizer.hessian_every);
}

// Where optimizer.name is sophia, gives keys that are not in `places` the defaults of the paper
// (arXiv 2305.14342, section 3.1).
void settle_sophia(OptimizerSection& optimizer, const SettingPlaces& places);

// Throws Error(kConfig) for settings that conflict with it, and for its keys with another
// optimizer.
void check_sophia(const Config& config, const SettingPlaces& places);

}  // namespace packtrain
