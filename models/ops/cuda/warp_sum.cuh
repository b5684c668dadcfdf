// Sums over the threads of a warp.
#pragma once

namespace packtrain::device {

// Sum over the 32 lanes of a warp, returned to each. All lanes must call it. The order is fixed, so
// the sum is deterministic.
__device__ inline float warp_sum(float value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(~0U, value, offset);
  return value;
}

}  // namespace packtrain::device
