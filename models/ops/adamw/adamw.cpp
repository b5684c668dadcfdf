#include "models/ops/adamw/adamw.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "framework/support/error.h"
#include "models/ops/adamw/adamw_cpu.h"
#include "models/ops/adamw/adamw_cuda.h"

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

void check_flat(const at::Tensor& tensor, const char* name, const at::Tensor& master) {
  require(tensor.defined() && tensor.scalar_type() == at::kFloat && tensor.dim() == 1 &&
              tensor.is_contiguous() && tensor.sizes() == master.sizes() &&
              tensor.device() == master.device(),
          name, tensor, "contiguous float32 [n] beside master");
}

void check_weight(const at::Tensor& weight, const at::Tensor& master) {
  if (!weight.defined()) return;
  require((weight.scalar_type() == at::kFloat || weight.scalar_type() == at::kBFloat16) &&
              weight.dim() == 1 && weight.is_contiguous() && weight.sizes() == master.sizes() &&
              weight.device() == master.device(),
          "weight", weight, "contiguous float32 or bfloat16 [n] beside master");
}

void check_scalar(const at::Tensor& tensor, const char* name, at::ScalarType type,
                  const at::Tensor& master, const char* wanted) {
  require(tensor.defined() && tensor.scalar_type() == type && tensor.numel() == 1 &&
              tensor.device() == master.device(),
          name, tensor, wanted);
}

void set_scalars(const AdamWOptions& options, AdamWArguments& arguments) {
  const auto step = static_cast<double>(options.step);
  arguments.beta1 = static_cast<float>(options.beta1);
  arguments.one_minus_beta1 = static_cast<float>(1 - options.beta1);
  arguments.beta2 = static_cast<float>(options.beta2);
  arguments.one_minus_beta2 = static_cast<float>(1 - options.beta2);
  arguments.decay = static_cast<float>(1 - options.learning_rate * options.weight_decay);
  arguments.step_size =
      static_cast<float>(options.learning_rate / (1 - std::pow(options.beta1, step)));
  arguments.inverse_root_bias2 =
      static_cast<float>(1 / std::sqrt(1 - std::pow(options.beta2, step)));
  arguments.epsilon = static_cast<float>(options.epsilon);
}

void adamw_cpu(const AdamWArguments& arguments) {
  if (*arguments.skip != 0) return;
  constexpr std::int64_t kGrain = 4096;  // the weight's pass finds master in the cache
  const float clip_factor = *arguments.clip_factor;
  at::parallel_for(0, arguments.numel, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; i += kGrain) {
      adamw_cpu_range(arguments, clip_factor, i, std::min(i + kGrain, end));
    }
  });
}

}  // namespace

void adamw(const at::Tensor& master, const at::Tensor& grad, const at::Tensor& exp_avg,
           const at::Tensor& exp_avg_sq, const at::Tensor& weight, const AdamWOptions& options,
           const at::Tensor& clip_factor, const at::Tensor& skip) {
  check_flat(master, "master", master);
  check_flat(grad, "grad", master);
  check_flat(exp_avg, "exp_avg", master);
  check_flat(exp_avg_sq, "exp_avg_sq", master);
  check_weight(weight, master);
  check_scalar(clip_factor, "clip_factor", at::kFloat, master, "a float32 scalar beside master");
  check_scalar(skip, "skip", at::kByte, master, "a uint8 scalar beside master");

  AdamWArguments arguments;
  arguments.master = master.mutable_data_ptr<float>();
  arguments.grad = grad.const_data_ptr<float>();
  arguments.exp_avg = exp_avg.mutable_data_ptr<float>();
  arguments.exp_avg_sq = exp_avg_sq.mutable_data_ptr<float>();
  if (weight.defined() && weight.const_data_ptr() != master.const_data_ptr()) {
    arguments.weight = weight.mutable_data_ptr();
    arguments.weight_is_bfloat16 = weight.scalar_type() == at::kBFloat16;
  }
  arguments.clip_factor = clip_factor.const_data_ptr<float>();
  arguments.skip = skip.const_data_ptr<std::uint8_t>();
  arguments.numel = master.numel();
  set_scalars(options, arguments);

  if (master.is_cuda()) {
    adamw_cuda(arguments, master.device().index());
  } else {
    adamw_cpu(arguments);
  }
}

}  // namespace packtrain
