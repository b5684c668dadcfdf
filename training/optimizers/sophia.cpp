#include "training/optimizers/sophia.h"

#include <algorithm>
#include <string>

#include "framework/core/error.h"
#include "training/optimizers/sophia_cpu.h"
#include "training/optimizers/sophia_cuda.h"
#include "training/optimizers/unclipped.h"
#include "training/optimizers/update_launch.h"

namespace packtrain {
namespace {

void require_tensor(bool holds, const char* name, const at::Tensor& tensor, const char* wanted) {
  if (holds) return;
  throw Error(ErrorCategory::kInternal,
              std::string("sophia: ") + name + " is " +
                  (tensor.defined() ? tensor.toString() + " of " + std::to_string(tensor.numel()) +
                                          " elements, " + std::to_string(tensor.dim()) + "-D"
                                    : "undefined") +
                  ", wanted " + wanted);
}

DataType type_of_floats(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kBFloat16 ? DataType::kBFloat16 : DataType::kFloat32;
}

void require_flat(const at::Tensor& tensor, const char* name, const at::Tensor& master) {
  const bool is_float = tensor.defined() && (tensor.scalar_type() == at::kFloat ||
                                             tensor.scalar_type() == at::kBFloat16);
  require_tensor(is_float && tensor.dim() == 1 && tensor.is_contiguous() &&
                     tensor.sizes() == master.sizes() && tensor.device() == master.device(),
                 name, tensor, "contiguous float32 or bfloat16 [n] on the device of master");
}

void require_counters(const at::Tensor& tensor, const char* name, std::int64_t numel,
                      const at::Tensor& master) {
  if (numel == 0) return;
  require_tensor(tensor.defined() && tensor.scalar_type() == at::kInt && tensor.is_contiguous() &&
                     tensor.numel() >= numel && tensor.device() == master.device(),
                 name, tensor, "contiguous int32 of enough elements on the device of master");
}

void require_scalar(const at::Tensor& tensor, const char* name, at::ScalarType type,
                    const at::Tensor& master, const char* wanted) {
  require_tensor(tensor.defined() && tensor.scalar_type() == type && tensor.numel() == 1 &&
                     tensor.device() == master.device(),
                 name, tensor, wanted);
}

bool has_own_weight(const SophiaTensors& tensors) {
  return tensors.weight.defined() &&
         tensors.weight.const_data_ptr() != tensors.master.const_data_ptr();
}

void check_tensors(const SophiaTensors& tensors, std::span<const ShardRange> ranges) {
  const at::Tensor& master = tensors.master;
  require_tensor(master.defined() && master.scalar_type() == at::kFloat, "master", master,
                 "contiguous float32 [n]");
  require_flat(master, "master", master);
  require_flat(tensors.grad, "grad", master);
  require_flat(tensors.exp_avg, "exp_avg", master);
  require_flat(tensors.hessian, "hessian", master);
  require_tensor(tensors.hessian.scalar_type() == tensors.exp_avg.scalar_type(), "hessian",
                 tensors.hessian, "the dtype of exp_avg");
  std::int64_t num_amax = 0;
  for (const ShardRange& range : ranges) {
    num_amax = std::max<std::int64_t>(num_amax, range.amax + 1);
  }
  require_counters(tensors.amax, "amax", num_amax, master);
  require_counters(tensors.num_unclipped, "num_unclipped",
                   tensors.num_unclipped.defined() ? kUnclippedCounters : 0, master);
  if (!has_own_weight(tensors)) return;
  require_flat(tensors.weight, "weight", master);
  require_tensor(tensors.weight.scalar_type() == at::kBFloat16, "weight", tensors.weight,
                 "bfloat16, or master itself");
}

SophiaArguments arguments_of(const SophiaTensors& tensors, const SophiaOptions& options) {
  SophiaArguments arguments;
  arguments.master = tensors.master.mutable_data_ptr<float>();
  arguments.grad = tensors.grad.const_data_ptr();
  arguments.grad_dtype = type_of_floats(tensors.grad);
  arguments.exp_avg = tensors.exp_avg.mutable_data_ptr();
  arguments.hessian = tensors.hessian.mutable_data_ptr();
  arguments.state_dtype = type_of_floats(tensors.exp_avg);
  if (has_own_weight(tensors)) arguments.weight = tensors.weight.mutable_data_ptr();
  if (tensors.amax.defined()) {
    arguments.amax =
        reinterpret_cast<std::uint32_t*>(tensors.amax.mutable_data_ptr<std::int32_t>());
  }
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

void run_pass(const SophiaArguments& arguments, const at::Device& device) {
  if (device.is_cuda()) {
    sophia_cuda(arguments, device.index());
  } else if (*arguments.skip == 0) {
    for_each_cpu_range(arguments,
                       [&](const UpdatePiece& piece, std::int64_t begin, std::int64_t end) {
                         sophia_cpu_range(arguments, piece, begin, end);
                       });
  }
}

void run_ranges(SophiaArguments& arguments, const at::Tensor& master,
                std::span<const ShardRange> ranges, const SophiaOptions& options) {
  launch_pieces(
      "sophia", arguments, ranges, master.numel(),
      [&](OptimizerGroup group) {
        const double weight_decay = options.weight_decay[static_cast<std::size_t>(group)];
        return static_cast<float>(1 - options.learning_rate * weight_decay);
      },
      [&](const SophiaArguments& full) { run_pass(full, master.device()); });
}

}  // namespace

std::vector<OptimizerStateSpec> sophia_state(at::ScalarType moments) {
  return {{.name = kSophiaExpAvg, .dtype = moments}, {.name = kSophiaHessian, .dtype = moments}};
}

void sophia(const SophiaTensors& tensors, std::span<const ShardRange> ranges,
            const SophiaOptions& options, const at::Tensor& clip_factor, const at::Tensor& skip) {
  check_tensors(tensors, ranges);
  const at::Tensor& master = tensors.master;
  require_scalar(clip_factor, "clip_factor", at::kFloat, master, "a float32 scalar there");
  require_scalar(skip, "skip", at::kByte, master, "a uint8 scalar there");
  SophiaArguments arguments = arguments_of(tensors, options);
  arguments.clip_factor = clip_factor.const_data_ptr<float>();
  arguments.skip = skip.const_data_ptr<std::uint8_t>();
  run_ranges(arguments, master, ranges, options);
}

void sophia_hessian(const SophiaTensors& tensors, std::span<const ShardRange> ranges,
                    const SophiaOptions& options, double num_tokens, const at::Tensor& skip) {
  check_tensors(tensors, ranges);
  require_scalar(skip, "skip", at::kByte, tensors.master, "a uint8 scalar there");
  SophiaArguments arguments = arguments_of(tensors, options);
  arguments.pass = SophiaPass::kHessian;
  arguments.square_factor = static_cast<float>((1 - options.beta2) * num_tokens);
  arguments.skip = skip.const_data_ptr<std::uint8_t>();
  run_ranges(arguments, tensors.master, ranges, options);
}

}  // namespace packtrain
