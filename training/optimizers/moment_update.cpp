#include "training/optimizers/moment_update.h"

#include "training/optimizers/moment_update_cpu.h"
#include "training/optimizers/moment_update_cuda.h"
#include "training/optimizers/update_checks.h"
#include "training/optimizers/update_launch.h"

namespace packtrain {
namespace {

bool has_moment(MomentRule rule) {
  return rule != MomentRule::kMuonWeights;
}

MomentArguments moment_arguments(MomentRule rule, const ShardPart& part,
                                 const MomentOptions& options, const UpdateOptions& update) {
  MomentArguments arguments;
  set_part(arguments, part, update.clip_factor, update.skip);
  arguments.rule = rule;
  if (has_moment(rule)) {
    arguments.moment = part.state[0].mutable_data_ptr();
    arguments.moment_dtype = flat_type(part.state[0]);
  }
  arguments.beta1 = static_cast<float>(options.beta1);
  arguments.one_minus_beta1 = static_cast<float>(1 - options.beta1);
  arguments.beta2 = static_cast<float>(options.beta2);
  arguments.one_minus_beta2 = static_cast<float>(1 - options.beta2);
  arguments.learning_rate = static_cast<float>(options.learning_rate);
  arguments.seed = options.seed;
  arguments.step = static_cast<std::uint64_t>(options.step);
  return arguments;
}

}  // namespace

void moment_update(MomentRule rule, const ShardPart& part, std::span<const ShardRange> ranges,
                   const MomentOptions& options, const UpdateOptions& update) {
  const UpdateChecks check("moment_update", part);
  check.tensors(ranges);
  if (has_moment(rule)) {
    check.require(part.state.size() == 1, "the state", part.master, "one moment");
    check.flat(part.state[0], "the moment");
  }
  check.scalar(update.clip_factor, "clip_factor", at::kFloat);
  check.scalar(update.skip, "skip", at::kByte);
  MomentArguments arguments = moment_arguments(rule, part, options, update);
  launch_pieces(
      "moment_update", arguments, ranges, part.master.numel(),
      [&](OptimizerGroup group) {
        return decay_factor(options.learning_rate, options.weight_decay, group);
      },
      [&](const MomentArguments& full) {
        run_launch(full, part.master.device(), moment_update_cuda, moment_update_cpu_range);
      });
}

}  // namespace packtrain
