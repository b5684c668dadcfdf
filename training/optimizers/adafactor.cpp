#include "training/optimizers/adafactor.h"

#include <algorithm>
#include <cmath>

#include "training/optimizers/moment_update.h"

namespace packtrain {
namespace {

// The update of weights alone: FactoredMoments has replaced the gradient before.
class Adafactor final : public Optimizer {
 public:
  Adafactor(const OptimizerSection& section, std::uint64_t seed) {
    options_.weight_decay = weight_decays(section);
    options_.seed = seed;
  }

  const char* name() const override { return "Adafactor"; }
  std::vector<OptimizerStateSpec> state() const override {
    return {{.name = kAdafactorFactors, .granularity = StateGranularity::kBlock},
            {.name = kAdafactorElements}};
  }
  const FactoredSettings* factored() const override { return &kAdafactorSettings; }
  void update(const ShardPart& part, std::span<const ShardRange> ranges,
              const UpdateOptions& update) const override {
    MomentOptions options = options_;
    options.learning_rate = update.learning_rate;
    options.step = update.step;
    moment_update(MomentRule::kMuonWeights, part, ranges, options, update);
  }

 private:
  MomentOptions options_;
};

}  // namespace

std::int64_t num_factors(const std::vector<ParameterMatrix>& matrices) {
  std::int64_t values = 0;
  for (const ParameterMatrix& matrix : matrices) values += matrix.rows + matrix.columns;
  return values;
}

bool has_blocks_for_factors(const ParameterSpec& parameter) {
  const std::int64_t values = num_factors(parameter_matrices(parameter));
  return values > 0 && values <= parameter.numel() / kStateBlock;
}

double adafactor_mix(double beta2_decay, std::int64_t step) {
  return std::pow(static_cast<double>(step), beta2_decay);
}

double adafactor_rate(double learning_rate, std::int64_t step) {
  if (learning_rate == 0) return 0;
  return std::min(1.0, 1 / (learning_rate * std::sqrt(static_cast<double>(step))));
}

std::unique_ptr<Optimizer> make_adafactor(const OptimizerSection& options, std::uint64_t seed) {
  return std::make_unique<Adafactor>(options, seed);
}

}  // namespace packtrain
