#include "training/optimizers/optimizer.h"

#include <algorithm>
#include <string_view>

#include "framework/core/error.h"
#include "training/optimizers/adafactor.h"
#include "training/optimizers/adamw.h"
#include "training/optimizers/lion.h"
#include "training/optimizers/muon.h"
#include "training/optimizers/sophia.h"

namespace packtrain {
namespace {

struct OptimizerEntry {
  std::string_view name;  // optimizer.name
  std::unique_ptr<Optimizer> (*make)(const OptimizerSection& options, std::uint64_t seed);
};

constexpr std::array kOptimizers = {
    OptimizerEntry{"adamw", make_adamw},         OptimizerEntry{"muon", make_muon},
    OptimizerEntry{"lion", make_lion},           OptimizerEntry{"sophia", make_sophia},
    OptimizerEntry{"adafactor", make_adafactor},
};

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const OptimizerSection& options, std::uint64_t seed) {
  const auto found = std::ranges::find(kOptimizers, options.name, &OptimizerEntry::name);
  if (found != kOptimizers.end()) return found->make(options, seed);
  throw Error(ErrorCategory::kInternal,
              "optimizer '" + options.name + "' is missing from the table in training/optimizers");
}

std::array<double, kNumOptimizerGroups> weight_decays(const OptimizerSection& options) {
  return {options.weight_decay, options.decay_norms_and_biases ? options.weight_decay : 0};
}

}  // namespace packtrain
