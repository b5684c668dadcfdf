#include "training/optimizers/muon.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "framework/device/tensor_type.h"
#include "training/optimizers/moment_update.h"

namespace packtrain {
namespace {

constexpr double kRmsOfAdamW = 0.2;

class Muon final : public Optimizer {
 public:
  Muon(const OptimizerSection& section, std::uint64_t seed)
      : moments_(scalar_type(wide_type(section.moments))) {
    options_.beta1 = section.momentum;
    options_.weight_decay = weight_decays(section);
    options_.seed = seed;
  }

  const char* name() const override { return "Muon"; }
  std::vector<OptimizerStateSpec> state() const override {
    return {{.name = kMomentumBuffer, .dtype = moments_}};
  }
  StateUse master_use(UpdatePass pass) const override {
    return pass == UpdatePass::kUpdate ? StateUse::kReadAndWrite : StateUse::kNone;
  }
  StateUse state_use(UpdatePass pass, std::size_t /*tensor*/) const override {
    return pass == UpdatePass::kPrepare ? StateUse::kReadAndWrite : StateUse::kNone;
  }
  bool orthogonalises() const override { return true; }
  void prepare(const ShardPart& part, std::span<const ShardRange> ranges,
               const UpdateOptions& update) const override {
    moment_update(MomentRule::kMuonMomentum, part, ranges, options_of(update), update);
  }
  void update(const ShardPart& part, std::span<const ShardRange> ranges,
              const UpdateOptions& update) const override {
    moment_update(MomentRule::kMuonWeights, part, ranges, options_of(update), update);
  }

 private:
  MomentOptions options_of(const UpdateOptions& update) const {
    MomentOptions options = options_;
    options.learning_rate = update.learning_rate;
    options.step = update.step;
    return options;
  }

  at::ScalarType moments_;
  MomentOptions options_;
};

}  // namespace

double muon_scale(std::int64_t rows, std::int64_t columns) {
  return kRmsOfAdamW * std::sqrt(static_cast<double>(std::max(rows, columns)));
}

std::unique_ptr<Optimizer> make_muon(const OptimizerSection& options, std::uint64_t seed) {
  return std::make_unique<Muon>(options, seed);
}

}  // namespace packtrain
