// Softmax in powers of 2, and the soft cap of logits.
#pragma once

#include "models/ops/cuda/cluster.cuh"

namespace packtrain::device {

constexpr float kLog2E = 1.44269504088896F;
constexpr float kLn2 = 0.693147180559945F;

// 2^x, within 2 units of the last place; without the scaling for denormal results of exp2f.
__device__ inline float power_of_2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// A soft cap, or none where `cap` is 0.
struct Cap {
  float cap = 0;
  float inverse = 0;

  // cap tanh(z / cap), and minus infinity where z is that.
  __device__ float of(float z) const {
    if (z == -INFINITY) return z;
    return cap * (1.0F - __fdividef(2.0F, 1.0F + power_of_2(2.0F * kLog2E * inverse * z)));
  }
  // d s / d z, of s.
  __device__ float slope(float s) const {
    const float t = s * inverse;
    return 1.0F - t * t;
  }
};

// Softmax's running state in powers of 2: sum = sum of 2^(s log2(e) - largest).
struct Softmax {
  float largest = -INFINITY;  // s log2(e)
  float sum = 0;

  __device__ float log_sum() const { return (largest + log2f(sum)) * kLn2; }
};

__device__ inline Softmax merged(Softmax a, Softmax b) {
  const float largest = fmaxf(a.largest, b.largest);
  if (largest == -INFINITY) return a;  // nothing seen yet: no inf - inf
  return {largest,
          a.sum * power_of_2(a.largest - largest) + b.sum * power_of_2(b.largest - largest)};
}

// The merged state of all threads of the block, on each; in one order. `scratch`: one a warp, not
// that of the call before.
template <int kThreads>
__device__ Softmax block_merged(Softmax mine, Softmax* scratch) {
  for (int offset = 16; offset > 0; offset /= 2) {
    const Softmax other = {__shfl_xor_sync(~0U, mine.largest, offset),
                           __shfl_xor_sync(~0U, mine.sum, offset)};
    mine = merged(mine, other);  // lane 0 has it in the end
  }
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = mine;
  __syncthreads();
  Softmax all = scratch[0];
  for (int warp = 1; warp < kThreads / 32; ++warp) all = merged(all, scratch[warp]);
  return all;
}

// The merged state of the blocks of the cluster, on each; in one order. `places`: not those of the
// call before.
template <int kParts>
__device__ Softmax cluster_merged(const Softmax& mine, Softmax (&places)[kParts]) {
  if constexpr (kParts == 1) return mine;
  if (threadIdx.x < kParts) {
    const Softmax& place = places[block_rank_in_cluster()];
    store_shared_cluster(mine.largest, &place.largest, threadIdx.x);
    store_shared_cluster(mine.sum, &place.sum, threadIdx.x);
  }
  cluster_sync();
  Softmax all = places[0];
  for (int part = 1; part < kParts; ++part) all = merged(all, places[part]);
  return all;
}

}  // namespace packtrain::device
