// The end of an optimizer step on the device: the norm of the gradient over all ranks, and what
// follows from it, without asking the host. Deterministic: sums run in an order that depends on the
// number of elements alone.
//   squared_norm_partials   sums of squares of the parts of a rank's shard: reads it once
//   step_sums               their sum beside loss and stop flag: what ranks add up
//   step_scalars            of the sums over all ranks: norm, clip factor, whether to skip
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <limits>

namespace packtrain {

// `values`: 1-D [n], contiguous, float32 or bfloat16. Returns float32 [parts], on a GPU 1056
// of them. Squares and their sums are float32, on the CPU float64. Bytes: 4 or 2 read an element.
at::Tensor squared_norm_partials(const at::Tensor& values);

// What ranks ask of each other, one number each: 0 or 1, so that sums count ranks, exactly up to
// 2^24 of them.
using RequestFlags = std::array<float, 3>;

// Returns float32 [5 + details]: loss, sum of `partials` (in float64 on a GPU), `requests`,
// `details`. `loss`: float32 []; `details`: float32 [k] or undefined.
at::Tensor step_sums(const at::Tensor& partials, const at::Tensor& loss,
                     const RequestFlags& requests, const at::Tensor& details);

// A step whose loss or norm is above these is skipped. Made for numbers that are far too large: NaN
// is always skipped.
struct RefusalBounds {
  double loss = std::numeric_limits<double>::infinity();
  double norm = std::numeric_limits<double>::infinity();
};

struct StepScalars {
  at::Tensor outcome;      // float32 [6 + details]: loss, norm, skip, requests, details
  at::Tensor clip_factor;  // float32 []: min(1, max_norm / (norm + 1e-6)); 1 where max_norm is 0
  at::Tensor skip;         // uint8 []: 1 where loss or norm is not finite, or above its bound
};

// `sums`: of step_sums, added up over ranks. The small term in the clip factor is that of PyTorch's
// clip_grad_norm_: a zero norm must not divide by zero.
StepScalars step_scalars(const at::Tensor& sums, double max_norm, const RefusalBounds& bounds = {});

}  // namespace packtrain
