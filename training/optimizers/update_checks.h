// Checks a part before its update, and makes kernel arguments of its tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <span>

#include "framework/core/data_type.h"
#include "training/optimizers/optimizer.h"
#include "training/optimizers/update_pieces.h"

namespace packtrain {

// Each function throws Error(kInternal), which names the update, the tensor, what it is and what
// was wanted.
class UpdateChecks {
 public:
  // `update`: its name. The part outlives the checks.
  UpdateChecks(const char* update, const ShardPart& part) : update_(update), part_(part) {}

  // Master, gradient, weight and amax.
  void tensors(std::span<const ShardRange> ranges) const;
  // float32 or bfloat16 [n], contiguous, on the device of master.
  void flat(const at::Tensor& tensor, const char* name) const;
  // `numel` of `type`, contiguous, 1-D, on the device of master.
  void values(const at::Tensor& tensor, const char* name, at::ScalarType type,
              std::int64_t numel) const;
  // At least `numel` int32, contiguous, on the device of master.
  void counters(const at::Tensor& tensor, const char* name, std::int64_t numel) const;
  // One value of `type` on the device of master.
  void scalar(const at::Tensor& tensor, const char* name, at::ScalarType type) const;
  void require(bool holds, const char* name, const at::Tensor& tensor, const char* wanted) const;

 private:
  const char* update_;
  const ShardPart& part_;
};

// The type of a tensor that UpdateChecks::flat() takes.
DataType flat_type(const at::Tensor& tensor);

// Sets the members of PartArguments. `clip_factor` may be undefined.
void set_part(PartArguments& arguments, const ShardPart& part, const at::Tensor& clip_factor,
              const at::Tensor& skip);

// 1 - lr wd of a group.
float decay_factor(double learning_rate,
                   const std::array<double, kNumOptimizerGroups>& weight_decay,
                   OptimizerGroup group);

}  // namespace packtrain
