#include "training/optimizers/sophia.h"

#include "training/optimizers/sophia_cpu.h"
#include "training/optimizers/sophia_cuda.h"
#include "training/optimizers/unclipped.h"
#include "training/optimizers/update_checks.h"
#include "training/optimizers/update_launch.h"

namespace packtrain {
namespace {

ShardPart part_of(const SophiaTensors& tensors) {
  return {tensors.master, tensors.grad, {}, tensors.weight, tensors.amax};
}

void check_sophia_tensors(const UpdateChecks& check, const SophiaTensors& tensors,
                          std::span<const ShardRange> ranges) {
  check.tensors(ranges);
  check.flat(tensors.exp_avg, "exp_avg");
  check.flat(tensors.hessian, "hessian");
  check.require(tensors.hessian.scalar_type() == tensors.exp_avg.scalar_type(), "hessian",
                tensors.hessian, "the dtype of exp_avg");
  if (!tensors.num_unclipped.defined()) return;
  check.counters(tensors.num_unclipped, "num_unclipped", kUnclippedCounters);
}

SophiaArguments arguments_of(const SophiaTensors& tensors, const SophiaOptions& options) {
  SophiaArguments arguments;
  arguments.exp_avg = tensors.exp_avg.mutable_data_ptr();
  arguments.hessian = tensors.hessian.mutable_data_ptr();
  arguments.state_dtype = flat_type(tensors.exp_avg);
  if (tensors.num_unclipped.defined()) {
    arguments.num_unclipped = tensors.num_unclipped.mutable_data_ptr<std::int32_t>();
  }
  arguments.beta1 = static_cast<float>(options.beta1);
  arguments.one_minus_beta1 = static_cast<float>(1 - options.beta1);
  arguments.beta2 = static_cast<float>(options.beta2);
  arguments.learning_rate = static_cast<float>(options.learning_rate);
  arguments.gamma = static_cast<float>(options.gamma);
  arguments.epsilon = static_cast<float>(options.epsilon);
  arguments.seed = options.seed;
  arguments.step = static_cast<std::uint64_t>(options.step);
  return arguments;
}

void run_ranges(SophiaArguments& arguments, const at::Tensor& master,
                std::span<const ShardRange> ranges, const SophiaOptions& options) {
  launch_pieces(
      "sophia", arguments, ranges, master.numel(),
      [&](OptimizerGroup group) {
        return decay_factor(options.learning_rate, options.weight_decay, group);
      },
      [&](const SophiaArguments& full) {
        run_launch(full, master.device(), sophia_cuda, sophia_cpu_range);
      });
}

}  // namespace

std::vector<OptimizerStateSpec> sophia_state(at::ScalarType moments) {
  return {{.name = kSophiaExpAvg, .dtype = moments}, {.name = kSophiaHessian, .dtype = moments}};
}

void sophia(const SophiaTensors& tensors, std::span<const ShardRange> ranges,
            const SophiaOptions& options, const at::Tensor& clip_factor, const at::Tensor& skip) {
  const ShardPart part = part_of(tensors);
  const UpdateChecks check("sophia", part);
  check_sophia_tensors(check, tensors, ranges);
  check.scalar(clip_factor, "clip_factor", at::kFloat);
  check.scalar(skip, "skip", at::kByte);
  SophiaArguments arguments = arguments_of(tensors, options);
  set_part(arguments, part, clip_factor, skip);
  run_ranges(arguments, tensors.master, ranges, options);
}

void sophia_hessian(const SophiaTensors& tensors, std::span<const ShardRange> ranges,
                    const SophiaOptions& options, double num_tokens, const at::Tensor& skip) {
  const ShardPart part = part_of(tensors);
  const UpdateChecks check("sophia", part);
  check_sophia_tensors(check, tensors, ranges);
  check.scalar(skip, "skip", at::kByte);
  SophiaArguments arguments = arguments_of(tensors, options);
  set_part(arguments, part, /*clip_factor=*/{}, skip);
  arguments.pass = SophiaPass::kHessian;
  arguments.square_factor = static_cast<float>((1 - options.beta2) * num_tokens);
  run_ranges(arguments, tensors.master, ranges, options);
}

}  // namespace packtrain
