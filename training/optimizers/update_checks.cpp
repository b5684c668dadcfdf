#include "training/optimizers/update_checks.h"

#include <algorithm>
#include <string>

#include "framework/core/error.h"

namespace packtrain {
namespace {

bool has_own_weight(const ShardPart& part) {
  return part.weight.defined() && part.weight.const_data_ptr() != part.master.const_data_ptr();
}

std::string describe(const at::Tensor& tensor) {
  if (!tensor.defined()) return "undefined";
  return tensor.toString() + " of " + std::to_string(tensor.numel()) + " elements, " +
         std::to_string(tensor.dim()) + "-D";
}

}  // namespace

void UpdateChecks::require(bool holds, const char* name, const at::Tensor& tensor,
                           const char* wanted) const {
  if (holds) return;
  throw Error(ErrorCategory::kInternal, std::string(update_) + ": " + name + " is " +
                                            describe(tensor) + ", wanted " + wanted);
}

void UpdateChecks::tensors(std::span<const ShardRange> ranges) const {
  require(part_.master.defined(), "master", part_.master, "contiguous float32 or bfloat16 [n]");
  flat(part_.master, "master");
  flat(part_.grad, "grad");
  std::int64_t num_amaxes = 0;
  for (const ShardRange& range : ranges) {
    num_amaxes = std::max<std::int64_t>(num_amaxes, range.amax + 1);
  }
  if (num_amaxes > 0) counters(part_.amax, "amax", num_amaxes);
  if (!has_own_weight(part_)) return;
  flat(part_.weight, "weight");
  require(part_.weight.scalar_type() == at::kBFloat16, "weight", part_.weight,
          "bfloat16, or master itself");
  require(part_.master.scalar_type() == at::kFloat, "master", part_.master,
          "float32, because weight is another tensor");
}

void UpdateChecks::flat(const at::Tensor& tensor, const char* name) const {
  const bool is_float = tensor.defined() && (tensor.scalar_type() == at::kFloat ||
                                             tensor.scalar_type() == at::kBFloat16);
  require(is_float && tensor.dim() == 1 && tensor.is_contiguous() &&
              tensor.sizes() == part_.master.sizes() && tensor.device() == part_.master.device(),
          name, tensor, "contiguous float32 or bfloat16 [n] on the device of master");
}

void UpdateChecks::values(const at::Tensor& tensor, const char* name, at::ScalarType type,
                          std::int64_t numel) const {
  require(
      tensor.defined() && tensor.scalar_type() == type && tensor.dim() == 1 &&
          tensor.is_contiguous() && tensor.numel() == numel &&
          tensor.device() == part_.master.device(),
      name, tensor,
      (std::to_string(numel) + " contiguous " + c10::toString(type) + " on the device of master")
          .c_str());
}

void UpdateChecks::counters(const at::Tensor& tensor, const char* name, std::int64_t numel) const {
  require(tensor.defined() && tensor.scalar_type() == at::kInt && tensor.is_contiguous() &&
              tensor.numel() >= numel && tensor.device() == part_.master.device(),
          name, tensor, "contiguous int32 of enough elements on the device of master");
}

void UpdateChecks::scalar(const at::Tensor& tensor, const char* name, at::ScalarType type) const {
  require(tensor.defined() && tensor.scalar_type() == type && tensor.numel() == 1 &&
              tensor.device() == part_.master.device(),
          name, tensor,
          type == at::kByte ? "a uint8 scalar on the device of master"
                            : "a float32 scalar on the device of master");
}

DataType flat_type(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kBFloat16 ? DataType::kBFloat16 : DataType::kFloat32;
}

void set_part(PartArguments& arguments, const ShardPart& part, const at::Tensor& clip_factor,
              const at::Tensor& skip) {
  arguments.master = part.master.mutable_data_ptr();
  arguments.master_dtype = flat_type(part.master);
  arguments.grad = part.grad.mutable_data_ptr();
  arguments.grad_dtype = flat_type(part.grad);
  if (has_own_weight(part)) arguments.weight = part.weight.mutable_data_ptr();
  if (part.amax.defined()) {
    arguments.amax = reinterpret_cast<std::uint32_t*>(part.amax.mutable_data_ptr<std::int32_t>());
  }
  if (clip_factor.defined()) arguments.clip_factor = clip_factor.const_data_ptr<float>();
  arguments.skip = skip.const_data_ptr<std::uint8_t>();
}

float decay_factor(double learning_rate,
                   const std::array<double, kNumOptimizerGroups>& weight_decay,
                   OptimizerGroup group) {
  return static_cast<float>(1 - learning_rate * weight_decay[static_cast<std::size_t>(group)]);
}

}  // namespace packtrain
