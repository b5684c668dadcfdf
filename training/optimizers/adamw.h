// AdamW over a flat shard (Loshchilov and Hutter, "Decoupled weight decay regularization", arXiv
// 1711.05101). One pass updates the master weights and both moments and writes the weights in
// bfloat16.
//    g = clip_factor * grad; m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2;
//    w = w (1 - lr wd) - lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)
// Computes in float32. bfloat16 moments are rounded stochastically with random bits of (seed, t,
// element) (stochastic_rounding.h). The update of w reads the moments before they are rounded.
// The largest magnitude of a range's weights is found as they are written, for casts to 8 bits.
// Bytes an element: master 4 + 4, each moment 4 + 4 or 2 + 2, grad 4 or 2, weight 2. That is 30
// with all in float32, 28 with a bfloat16 gradient, 20 with bfloat16 moments too. Deterministic.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "models/block/block.h"
#include "parallel/sharding/optimizer_state.h"
#include "training/optimizers/adamw_arguments.h"
#include "training/optimizers/optimizer.h"

namespace packtrain {

// Names of the state's tensors.
inline constexpr const char* kExpAvg = "exp_avg";       // first moment
inline constexpr const char* kExpAvgSq = "exp_avg_sq";  // second moment

// The state that AdamW keeps: two moments of type `moments` for each element.
std::vector<OptimizerStateSpec> adamw_state(at::ScalarType moments);

struct AdamWOptions {
  double learning_rate = 0;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  std::array<double, kNumOptimizerGroups> weight_decay = {};  // of each group
  std::int64_t step = 1;                                      // t above, from 1
  std::uint64_t seed = 0;                                     // of stochastic rounding
};

// All tensors are 1-D [n], contiguous and on one device. `master` is float32, `grad` float32 or
// bfloat16. The moments are both float32 or both bfloat16. `weight` is bfloat16. It is not written
// when it is undefined or is `master` itself. `amax` is ShardPart::amax, int32 [any].
struct AdamWTensors {
  at::Tensor master;
  at::Tensor grad;
  at::Tensor exp_avg;
  at::Tensor exp_avg_sq;
  at::Tensor weight;
  at::Tensor amax = {};
};

// `ranges` are contiguous and cover [0, n). They are fastest when all begin at multiples of 4. One
// launch takes 128 of them. `clip_factor` is float32 [] on the device. Nothing is written when the
// device scalar `skip` (uint8 []) is not zero, so that the host need not wait to discard a step.
// Throws Error(kInternal) for tensors or ranges that do not fit.
void adamw(const AdamWTensors& tensors, std::span<const ShardRange> ranges,
           const AdamWOptions& options, const at::Tensor& clip_factor, const at::Tensor& skip);

// Returns the scalars of a step.
AdamWScalars adamw_scalars(const AdamWOptions& options);

std::unique_ptr<Optimizer> make_adamw(const OptimizerSection& options, std::uint64_t seed);

}  // namespace packtrain
