// AdamW over a flat shard (Loshchilov and Hutter, "Decoupled weight decay regularization",
// arXiv 1711.05101): one pass reads and writes master weights and both moments and writes the
// weights in bfloat16.
//   g = clip_factor * grad; m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2;
//   w = w (1 - lr wd) - lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)
// All maths in float32. bfloat16 moments are rounded stochastically, from random bits of (seed, t,
// element) (stochastic_rounding.h); w is updated from them before they are rounded.
// Bytes an element: master 4 + 4, each moment 4 + 4 or 2 + 2, grad 4 or 2, weight 2: 30 with all in
// float32, 28 with a bfloat16 gradient, 20 with bfloat16 moments too. Deterministic.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace packtrain {

struct AdamWOptions {
  double learning_rate = 0;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0;
  std::int64_t step = 1;   // t above, from 1
  std::uint64_t seed = 0;  // of the stochastic rounding
};

// All 1-D [n], contiguous, on one device. `master` float32; `grad` float32 or bfloat16; the moments
// both float32 or both bfloat16; `weight` bfloat16, or `master` itself or undefined: not written.
struct AdamWTensors {
  at::Tensor master;
  at::Tensor grad;
  at::Tensor exp_avg;
  at::Tensor exp_avg_sq;
  at::Tensor weight;
};

// A part of the shard with one weight-decay flag.
struct AdamWRange {
  std::int64_t begin = 0;
  std::int64_t numel = 0;
  bool decay = true;
  // Number of its first element in the whole model: what random bits are made from.
  std::int64_t first_element = 0;
};

// `ranges`: end to end, [0, n) together; fastest where all begin at multiples of 4. A launch takes
// 128 of them. `clip_factor` float32 [] on the device. When the device scalar `skip` (uint8 []) is
// non-zero nothing is written at all: a non-finite step is refused without asking the host.
// Throws Error(kInternal) for tensors or ranges that do not fit.
void adamw(const AdamWTensors& tensors, std::span<const AdamWRange> ranges,
           const AdamWOptions& options, const at::Tensor& clip_factor, const at::Tensor& skip);

}  // namespace packtrain
