#include "training/optimizers/adamw.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "framework/core/error.h"
#include "training/optimizers/adamw_cpu.h"
#include "training/optimizers/adamw_cuda.h"
#include "training/optimizers/update_launch.h"

namespace packtrain {
namespace {

void require(bool holds, const char* name, const at::Tensor& tensor, const char* wanted) {
  if (holds) return;
  throw Error(ErrorCategory::kInternal,
              std::string("adamw: ") + name + " is " +
                  (tensor.defined() ? tensor.toString() + " of " + std::to_string(tensor.numel()) +
                                          " elements, " + std::to_string(tensor.dim()) + "-D"
                                    : "undefined") +
                  ", wanted " + wanted);
}

bool is_float_or_bfloat16(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kFloat || tensor.scalar_type() == at::kBFloat16;
}

// Of a tensor that check_flat() accepts.
DataType float_type_of(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kBFloat16 ? DataType::kBFloat16 : DataType::kFloat32;
}

void check_flat(const at::Tensor& tensor, const char* name, const at::Tensor& master) {
  require(tensor.defined() && is_float_or_bfloat16(tensor) && tensor.dim() == 1 &&
              tensor.is_contiguous() && tensor.sizes() == master.sizes() &&
              tensor.device() == master.device(),
          name, tensor, "contiguous float32 or bfloat16 [n] beside master");
}

bool writes_weight(const AdamWTensors& tensors) {
  return tensors.weight.defined() &&
         tensors.weight.const_data_ptr() != tensors.master.const_data_ptr();
}

void check_tensors(const AdamWTensors& tensors) {
  const at::Tensor& master = tensors.master;
  require(master.defined(), "master", master, "contiguous float32 [n]");
  check_flat(master, "master", master);
  require(master.scalar_type() == at::kFloat, "master", master, "float32");
  check_flat(tensors.grad, "grad", master);
  check_flat(tensors.exp_avg, "exp_avg", master);
  check_flat(tensors.exp_avg_sq, "exp_avg_sq", master);
  require(tensors.exp_avg_sq.scalar_type() == tensors.exp_avg.scalar_type(), "exp_avg_sq",
          tensors.exp_avg_sq, "the dtype of exp_avg");
  if (!writes_weight(tensors)) return;
  check_flat(tensors.weight, "weight", master);
  require(tensors.weight.scalar_type() == at::kBFloat16, "weight", tensors.weight,
          "bfloat16, or master itself");
}

void check_scalar(const at::Tensor& tensor, const char* name, at::ScalarType type,
                  const at::Tensor& master, const char* wanted) {
  require(tensor.defined() && tensor.scalar_type() == type && tensor.numel() == 1 &&
              tensor.device() == master.device(),
          name, tensor, wanted);
}

void check_amax(const AdamWTensors& tensors, std::span<const ShardRange> ranges) {
  std::int64_t end = 0;  // of what the ranges need
  for (const ShardRange& range : ranges) end = std::max<std::int64_t>(end, range.amax + 1);
  const at::Tensor& amax = tensors.amax;
  if (end == 0) return;
  require(amax.defined() && amax.scalar_type() == at::kInt && amax.is_contiguous() &&
              amax.numel() >= end && amax.device() == tensors.master.device(),
          "amax", amax,
          "contiguous int32 on the device of master, with an element for each range's number");
}

AdamWArguments make_arguments(const AdamWTensors& tensors, const AdamWOptions& options) {
  AdamWArguments arguments;
  arguments.master = tensors.master.mutable_data_ptr<float>();
  arguments.grad = tensors.grad.const_data_ptr();
  arguments.grad_dtype = float_type_of(tensors.grad);
  arguments.exp_avg = tensors.exp_avg.mutable_data_ptr();
  arguments.exp_avg_sq = tensors.exp_avg_sq.mutable_data_ptr();
  arguments.moments_dtype = float_type_of(tensors.exp_avg);
  if (writes_weight(tensors)) arguments.weight = tensors.weight.mutable_data_ptr();
  if (tensors.amax.defined()) {
    arguments.amax =
        reinterpret_cast<std::uint32_t*>(tensors.amax.mutable_data_ptr<std::int32_t>());
  }
  static_cast<AdamWScalars&>(arguments) = adamw_scalars(options);
  arguments.seed = options.seed;
  arguments.step = static_cast<std::uint64_t>(options.step);
  return arguments;
}

void adamw_cpu(const AdamWArguments& arguments) {
  if (*arguments.skip != 0) return;
  for_each_cpu_range(arguments,
                     [&](const UpdatePiece& piece, std::int64_t begin, std::int64_t end) {
                       adamw_cpu_range(arguments, piece, begin, end);
                     });
}

void launch(const AdamWArguments& arguments, const at::Device& device) {
  if (device.is_cuda()) {
    adamw_cuda(arguments, device.index());
  } else {
    adamw_cpu(arguments);
  }
}

float decay_factor(const AdamWOptions& options, OptimizerGroup group) {
  const double weight_decay = options.weight_decay[static_cast<std::size_t>(group)];
  return static_cast<float>(1 - options.learning_rate * weight_decay);
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
  check_tensors(tensors);
  check_amax(tensors, ranges);
  const at::Tensor& master = tensors.master;
  check_scalar(clip_factor, "clip_factor", at::kFloat, master, "a float32 scalar beside master");
  check_scalar(skip, "skip", at::kByte, master, "a uint8 scalar beside master");
  AdamWArguments arguments = make_arguments(tensors, options);
  arguments.clip_factor = clip_factor.const_data_ptr<float>();
  arguments.skip = skip.const_data_ptr<std::uint8_t>();
  launch_pieces(
      "adamw", arguments, ranges, master.numel(),
      [&](OptimizerGroup group) { return decay_factor(options, group); },
      [&](const AdamWArguments& full) { launch(full, master.device()); });
}

}  // namespace packtrain
