#include "training/optimizers/adamw.h"

#include <cmath>

#include "training/optimizers/adamw_cpu.h"
#include "training/optimizers/adamw_cuda.h"
#include "training/optimizers/update_checks.h"
#include "training/optimizers/update_launch.h"

namespace packtrain {
namespace {

ShardPart part_of(const AdamWTensors& tensors) {
  return {tensors.master, tensors.grad, {}, tensors.weight, tensors.amax};
}

}  // namespace

AdamWScalars adamw_scalars(const AdamWOptions& options) {
  AdamWScalars scalars;
  const auto step = static_cast<double>(options.step);
  scalars.beta1 = static_cast<float>(options.beta1);
  scalars.one_minus_beta1 = static_cast<float>(1 - options.beta1);
  scalars.beta2 = static_cast<float>(options.beta2);
  scalars.one_minus_beta2 = static_cast<float>(1 - options.beta2);
  scalars.step_size =
      static_cast<float>(options.learning_rate / (1 - std::pow(options.beta1, step)));
  scalars.inverse_root_bias2 = static_cast<float>(1 / std::sqrt(1 - std::pow(options.beta2, step)));
  scalars.epsilon = static_cast<float>(options.epsilon);
  return scalars;
}

std::vector<OptimizerStateSpec> adamw_state(at::ScalarType moments) {
  return {{.name = kExpAvg, .dtype = moments}, {.name = kExpAvgSq, .dtype = moments}};
}

void adamw(const AdamWTensors& tensors, std::span<const ShardRange> ranges,
           const AdamWOptions& options, const at::Tensor& clip_factor, const at::Tensor& skip) {
  const ShardPart part = part_of(tensors);
  const UpdateChecks check("adamw", part);
  check.tensors(ranges);
  check.flat(tensors.exp_avg, "exp_avg");
  check.flat(tensors.exp_avg_sq, "exp_avg_sq");
  check.require(tensors.exp_avg_sq.scalar_type() == tensors.exp_avg.scalar_type(), "exp_avg_sq",
                tensors.exp_avg_sq, "the dtype of exp_avg");
  check.scalar(clip_factor, "clip_factor", at::kFloat);
  check.scalar(skip, "skip", at::kByte);
  AdamWArguments arguments;
  set_part(arguments, part, clip_factor, skip);
  arguments.exp_avg = tensors.exp_avg.mutable_data_ptr();
  arguments.exp_avg_sq = tensors.exp_avg_sq.mutable_data_ptr();
  arguments.moments_dtype = flat_type(tensors.exp_avg);
  static_cast<AdamWScalars&>(arguments) = adamw_scalars(options);
  arguments.seed = options.seed;
  arguments.step = static_cast<std::uint64_t>(options.step);
  launch_pieces(
      "adamw", arguments, ranges, part.master.numel(),
      [&](OptimizerGroup group) {
        return decay_factor(options.learning_rate, options.weight_decay, group);
      },
      [&](const AdamWArguments& full) {
        run_launch(full, part.master.device(), adamw_cuda, adamw_cpu_range);
      });
}

}  // namespace packtrain
