// AdamW as an optimizer of the table.
#include "framework/device/tensor_type.h"
#include "training/optimizers/adamw.h"
#include "training/optimizers/adamw8.h"

namespace packtrain {
namespace {

class AdamW final : public Optimizer {
 public:
  AdamW(const OptimizerSection& section, std::uint64_t seed)
      : moments_(scalar_type(wide_type(section.moments))) {
    options_.beta1 = section.betas[0];
    options_.beta2 = section.betas[1];
    options_.epsilon = section.epsilon;
    options_.weight_decay = weight_decays(section);
    options_.seed = seed;
  }

  const char* name() const override { return "AdamW"; }
  std::vector<OptimizerStateSpec> state() const override { return adamw_state(moments_); }
  void update(const ShardPart& part, std::span<const ShardRange> ranges,
              const UpdateOptions& update) const override {
    AdamWOptions options = options_;
    options.learning_rate = update.learning_rate;
    options.step = update.step;
    adamw({part.master, part.grad, part.state.at(0), part.state.at(1), part.weight, part.amax},
          ranges, options, update.clip_factor, update.skip);
  }

 private:
  at::ScalarType moments_;
  AdamWOptions options_;
};

}  // namespace

std::unique_ptr<Optimizer> make_adamw(const OptimizerSection& options, std::uint64_t seed) {
  if (options.moments == Moments::kInt8) return make_adamw8(options, seed);
  return std::make_unique<AdamW>(options, seed);
}

}  // namespace packtrain
