#include "training/optimizers/moment_update.h"

#include <algorithm>
#include <string>

#include "framework/core/error.h"
#include "training/optimizers/moment_update_cpu.h"
#include "training/optimizers/moment_update_cuda.h"
#include "training/optimizers/update_launch.h"

namespace packtrain {
namespace {

void require_tensor(bool holds, const char* name, const char* wanted) {
  if (holds) return;
  throw Error(ErrorCategory::kInternal,
              std::string("moment_update: ") + name + " is wrong, wanted " + wanted);
}

void check_part(MomentRule rule, const ShardPart& part, std::span<const ShardRange> ranges) {
  const at::Tensor& master = part.master;
  const auto is_flat = [&](const at::Tensor& x) {
    const bool is_float =
        x.defined() && (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16);
    return is_float && x.dim() == 1 && x.is_contiguous() && x.sizes() == master.sizes() &&
           x.device() == master.device();
  };
  require_tensor(master.defined() && is_flat(master) && master.scalar_type() == at::kFloat,
                 "master", "contiguous float32 [n]");
  require_tensor(is_flat(part.grad), "grad", "contiguous float32 or bfloat16 [n] beside master");
  if (rule != MomentRule::kMuonWeights) {
    require_tensor(part.state.size() == 1 && is_flat(part.state[0]), "the state",
                   "one moment, contiguous float32 or bfloat16 [n] beside master");
  }
  if (part.weight.defined()) {
    const bool is_master = part.weight.const_data_ptr() == master.const_data_ptr();
    require_tensor(
        is_master || (is_flat(part.weight) && part.weight.scalar_type() == at::kBFloat16), "weight",
        "contiguous bfloat16 [n] beside master, or master itself");
  }
  std::int64_t num_amaxes = 0;
  for (const ShardRange& range : ranges) {
    num_amaxes = std::max<std::int64_t>(num_amaxes, range.amax + 1);
  }
  require_tensor(num_amaxes == 0 || (part.amax.defined() && part.amax.scalar_type() == at::kInt &&
                                     part.amax.is_contiguous() && part.amax.numel() >= num_amaxes),
                 "amax", "contiguous int32 with an element for each range's number");
}

void check_step_scalars(const UpdateOptions& update, const at::Tensor& master) {
  const auto is_scalar = [&](const at::Tensor& x, at::ScalarType type) {
    return x.defined() && x.scalar_type() == type && x.numel() == 1 &&
           x.device() == master.device();
  };
  require_tensor(is_scalar(update.clip_factor, at::kFloat), "clip_factor",
                 "a float32 scalar beside master");
  require_tensor(is_scalar(update.skip, at::kByte), "skip", "a uint8 scalar beside master");
}

DataType flat_type_of(const at::Tensor& x) {
  return x.scalar_type() == at::kBFloat16 ? DataType::kBFloat16 : DataType::kFloat32;
}

MomentArguments moment_arguments(MomentRule rule, const ShardPart& part,
                                 const MomentOptions& options, const UpdateOptions& update) {
  MomentArguments arguments;
  arguments.rule = rule;
  arguments.master = part.master.mutable_data_ptr<float>();
  arguments.grad = part.grad.mutable_data_ptr();
  arguments.grad_dtype = flat_type_of(part.grad);
  if (rule != MomentRule::kMuonWeights) {
    arguments.moment = part.state[0].mutable_data_ptr();
    arguments.moment_dtype = flat_type_of(part.state[0]);
  }
  if (part.weight.defined() && part.weight.const_data_ptr() != part.master.const_data_ptr()) {
    arguments.weight = part.weight.mutable_data_ptr();
  }
  if (part.amax.defined()) {
    arguments.amax = reinterpret_cast<std::uint32_t*>(part.amax.mutable_data_ptr<std::int32_t>());
  }
  arguments.clip_factor = update.clip_factor.const_data_ptr<float>();
  arguments.skip = update.skip.const_data_ptr<std::uint8_t>();
  arguments.beta1 = static_cast<float>(options.beta1);
  arguments.one_minus_beta1 = static_cast<float>(1 - options.beta1);
  arguments.beta2 = static_cast<float>(options.beta2);
  arguments.one_minus_beta2 = static_cast<float>(1 - options.beta2);
  arguments.learning_rate = static_cast<float>(options.learning_rate);
  arguments.seed = options.seed;
  arguments.step = static_cast<std::uint64_t>(options.step);
  return arguments;
}

void launch_moments(const MomentArguments& arguments, const at::Device& device) {
  if (device.is_cuda()) return moment_update_cuda(arguments, device.index());
  if (*arguments.skip != 0) return;
  for_each_cpu_range(arguments,
                     [&](const UpdatePiece& piece, std::int64_t begin, std::int64_t end) {
                       moment_update_cpu_range(arguments, piece, begin, end);
                     });
}

}  // namespace

void moment_update(MomentRule rule, const ShardPart& part, std::span<const ShardRange> ranges,
                   const MomentOptions& options, const UpdateOptions& update) {
  check_part(rule, part, ranges);
  check_step_scalars(update, part.master);
  MomentArguments arguments = moment_arguments(rule, part, options, update);
  launch_pieces(
      "moment_update", arguments, ranges, part.master.numel(),
      [&](OptimizerGroup group) {
        const double decay = options.weight_decay[static_cast<std::size_t>(group)];
        return static_cast<float>(1 - options.learning_rate * decay);
      },
      [&](const MomentArguments& full) { launch_moments(full, part.master.device()); });
}

}  // namespace packtrain
