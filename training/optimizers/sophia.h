// Sophia-G over a flat shard (Liu, Li, Hall, Liang, Ma, "Sophia: a scalable stochastic second-order
// optimizer", arXiv 2305.14342, algorithms 2 and 3). There are two operators:
//    sophia          g = clip_factor * grad;  m = b1 m + (1 - b1) g
//                    w = w (1 - lr wd) - lr max(-1, min(m / max(gamma h, eps), 1))
//    sophia_hessian  h = b2 h + (1 - b2) B e^2
// e is the gradient of the mean loss of B tokens whose labels are samples of the model's own
// distribution. B e^2 then estimates the diagonal of the Gauss-Newton matrix. With unequal weights
// of tokens e has their square roots (training/steps/hessian_batches.h).
// This is the form of the paper. The authors' code keeps an average of e^2 and multiplies it by B
// at each update. That needs one B for the whole run, and packed steps have different numbers of
// tokens. Both forms are equal for a constant B and rho = gamma.
// Computes in float32. bfloat16 state is rounded stochastically with random bits of (seed, step,
// element) (stochastic_rounding.h). The update of w reads m before it is rounded. The largest
// magnitude of a range's weights is found as they are written, for casts to 8 bits.
// `sophia` moves these bytes an element: master 4 + 4, m 4 + 4 or 2 + 2, h 4 or 2, grad 4 or 2,
// weight 2. `sophia_hessian` moves h 4 + 4 or 2 + 2, grad 4 or 2. Both are deterministic.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "models/block/block.h"
#include "parallel/sharding/optimizer_state.h"
#include "training/optimizers/optimizer.h"

namespace packtrain {

// Names of the state's tensors. No other optimizer has them, because a run may have several.
inline constexpr const char* kSophiaExpAvg = "sophia_exp_avg";
inline constexpr const char* kSophiaHessian = "hessian";  // h

// The state that Sophia keeps: both tensors of type `moments`, one value for each element.
std::vector<OptimizerStateSpec> sophia_state(at::ScalarType moments);

struct SophiaOptions {
  double learning_rate = 0;
  double beta1 = 0.965;
  double beta2 = 0.99;
  double gamma = 0.05;  // rho of the authors' code
  double epsilon = 1e-15;
  std::array<double, kNumOptimizerGroups> weight_decay = {};  // of each group
  std::int64_t step = 1;                                      // from 1; of stochastic rounding
  std::uint64_t seed = 0;                                     // of stochastic rounding
};

// All tensors are 1-D [n], contiguous and on one device. `master` is float32, `grad` float32 or
// bfloat16. `exp_avg` and `hessian` are both float32 or both bfloat16. `weight` is bfloat16. It is
// not written when it is undefined or is `master` itself. `amax` is ShardPart::amax, int32 [any].
// `num_unclipped` is int32 [kUnclippedCounters] or undefined. The number of elements whose step is
// smaller than the learning rate is added to its elements.
struct SophiaTensors {
  at::Tensor master;
  at::Tensor grad;
  at::Tensor exp_avg;
  at::Tensor hessian;
  at::Tensor weight;
  at::Tensor amax = {};
  at::Tensor num_unclipped = {};
};

// Updates m and w. `ranges` are contiguous and cover [0, n). They are fastest when all begin at
// multiples of 4. `clip_factor` is float32 [] on the device. Nothing is written when the device
// scalar `skip` (uint8 []) is not zero.
// Throws Error(kInternal) for tensors or ranges that do not fit.
void sophia(const SophiaTensors& tensors, std::span<const ShardRange> ranges,
            const SophiaOptions& options, const at::Tensor& clip_factor, const at::Tensor& skip);

// Updates h by e = `tensors.grad` and B = `num_tokens`. Reads no other tensor than `grad` and
// `hessian`, but checks all of them. `ranges`, `skip` and errors: as above.
void sophia_hessian(const SophiaTensors& tensors, std::span<const ShardRange> ranges,
                    const SophiaOptions& options, double num_tokens, const at::Tensor& skip);

std::unique_ptr<Optimizer> make_sophia(const OptimizerSection& options, std::uint64_t seed);

}  // namespace packtrain
