// Sophia as an optimizer of the table.
#include <cstddef>

#include "framework/device/tensor_type.h"
#include "training/optimizers/sophia.h"

namespace packtrain {
namespace {

class Sophia final : public Optimizer {
 public:
  Sophia(const OptimizerSection& section, std::uint64_t seed)
      : moments_(scalar_type(wide_type(section.moments))) {
    options_.beta1 = section.betas[0];
    options_.beta2 = section.betas[1];
    options_.gamma = section.gamma;
    options_.epsilon = section.epsilon;
    options_.weight_decay = weight_decays(section);
    options_.seed = seed;
  }

  const char* name() const override { return "Sophia"; }
  std::vector<OptimizerStateSpec> state() const override { return sophia_state(moments_); }
  void update(const ShardPart& part, std::span<const ShardRange> ranges,
              const UpdateOptions& update) const override {
    SophiaOptions options = options_;
    options.learning_rate = update.learning_rate;
    options.step = update.step;
    SophiaTensors tensors = tensors_of(part);
    tensors.num_unclipped = update.num_unclipped;
    sophia(tensors, ranges, options, update.clip_factor, update.skip);
  }

  StateUse master_use(UpdatePass pass) const override {
    return pass == UpdatePass::kUpdate ? StateUse::kReadAndWrite : StateUse::kNone;
  }
  StateUse state_use(UpdatePass pass, std::size_t tensor) const override {
    const bool is_hessian = tensor == 1;
    if (pass == UpdatePass::kHessian) {
      return is_hessian ? StateUse::kReadAndWrite : StateUse::kNone;
    }
    return is_hessian ? StateUse::kRead : StateUse::kReadAndWrite;
  }

  bool has_hessian() const override { return true; }
  void update_hessian(const ShardPart& part, std::span<const ShardRange> ranges,
                      const HessianOptions& update) const override {
    SophiaOptions options = options_;
    options.step = update.step;
    sophia_hessian(tensors_of(part), ranges, options, update.num_tokens, update.skip);
  }

 private:
  static SophiaTensors tensors_of(const ShardPart& part) {
    return {part.master, part.grad, part.state.at(0), part.state.at(1), part.weight, part.amax};
  }

  at::ScalarType moments_;
  SophiaOptions options_;
};

}  // namespace

std::unique_ptr<Optimizer> make_sophia(const OptimizerSection& options, std::uint64_t seed) {
  return std::make_unique<Sophia>(options, seed);
}

}  // namespace packtrain
