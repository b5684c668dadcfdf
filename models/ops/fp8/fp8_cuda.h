// Functions that the callers of the casts' kernels share.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/ops/fp8/fp8_launch.h"

namespace packtrain {

// Compute capability, times 10, of the first GPUs that multiply 8-bit floats.
inline constexpr int kMinFp8Capability = 89;
// 10 major + minor of the current device.
int compute_capability();

// x, or a copy that begins at a multiple of 16 bytes, as kernels read it. A weight in a flat buffer
// may begin elsewhere.
at::Tensor fp8_aligned(const at::Tensor& x);

struct Fp8FoundAmax {
  Fp8AmaxPartials partials;
  at::Tensor memory;  // of the partials
};
// Returns `known` if it is defined, otherwise finds it by one pass over x, which is aligned. The
// partials of matrices [E, M, K] follow one another, and `partials` has the first ones.
Fp8FoundAmax find_fp8_amax(const at::Tensor& x, const at::Tensor& known, void* stream);

}  // namespace packtrain
