// AdamW over a flat shard (Loshchilov and Hutter, "Decoupled weight decay regularization",
// arXiv 1711.05101): one pass reads and writes master weights and both moments and writes the
// weights in the compute dtype.
//   g = clip_factor * grad; m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2;
//   w = w (1 - lr wd) - lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)
// Bytes: 16 read + 12 written per element, + 2 or 4 for `weight`. Deterministic.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace packtrain {

struct AdamWOptions {
  double learning_rate = 0;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0;
  std::int64_t step = 1;  // t above, from 1
};

// All tensors 1-D [n] on one device; master, grad, exp_avg, exp_avg_sq float32; `weight` float32 or
// bfloat16 (may be `master` itself, or undefined: not written). `clip_factor` float32 [] on the
// device. When the device scalar `skip` (uint8 []) is non-zero nothing is written at all: a
// non-finite step is refused without asking the host.
void adamw(const at::Tensor& master, const at::Tensor& grad, const at::Tensor& exp_avg,
           const at::Tensor& exp_avg_sq, const at::Tensor& weight, const AdamWOptions& options,
           const at::Tensor& clip_factor, const at::Tensor& skip);

}  // namespace packtrain
