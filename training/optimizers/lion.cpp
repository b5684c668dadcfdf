#include "training/optimizers/lion.h"

#include "framework/device/tensor_type.h"
#include "training/optimizers/moment_update.h"

namespace packtrain {
namespace {

class Lion final : public Optimizer {
 public:
  Lion(const OptimizerSection& section, std::uint64_t seed)
      : moments_(scalar_type(wide_type(section.moments))) {
    options_.beta1 = section.betas[0];
    options_.beta2 = section.betas[1];
    options_.weight_decay = weight_decays(section);
    options_.seed = seed;
  }

  const char* name() const override { return "Lion"; }
  std::vector<OptimizerStateSpec> state() const override {
    return {{.name = kLionExpAvg, .dtype = moments_}};
  }
  void update(const ShardPart& part, std::span<const ShardRange> ranges,
              const UpdateOptions& update) const override {
    MomentOptions options = options_;
    options.learning_rate = update.learning_rate;
    options.step = update.step;
    moment_update(MomentRule::kLion, part, ranges, options, update);
  }

 private:
  at::ScalarType moments_;
  MomentOptions options_;
};

}  // namespace

std::unique_ptr<Optimizer> make_lion(const OptimizerSection& options, std::uint64_t seed) {
  return std::make_unique<Lion>(options, seed);
}

}  // namespace packtrain
