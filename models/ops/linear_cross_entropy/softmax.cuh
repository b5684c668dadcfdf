// Online softmax in powers of 2, and the soft cap of logits.
#pragma once

#include "models/ops/cuda/cluster.cuh"
#include "models/ops/cuda/power_of_2.cuh"

namespace packtrain::device {

constexpr float kLn2 = 0.693147180559945F;

// A soft cap. Not used where `cap` is 0.
struct Cap {
  float cap = 0;
  float inverse = 0;

  // cap tanh(z / cap). Keeps minus infinity, which marks padded vocabulary columns.
  __device__ float of(float z) const {
    if (z == -INFINITY) return z;
    return cap * (1.0F - __fdividef(2.0F, 1.0F + power_of_2(2.0F * kLog2E * inverse * z)));
  }
  // ds / dz as a function of s.
  __device__ float slope(float s) const {
    const float t = s * inverse;
    return 1.0F - t * t;
  }
};

// Running state of the online softmax: sum = sum of 2^(s log2(e) - largest).
struct Softmax {
  float largest = -INFINITY;  // s log2(e)
  float sum = 0;

  __device__ float log_sum() const { return (largest + log2f(sum)) * kLn2; }
};

__device__ inline Softmax merged(Softmax a, Softmax b) {
  const float largest = fmaxf(a.largest, b.largest);
  if (largest == -INFINITY) return a;  // both are empty: avoids inf - inf
  return {largest,
          a.sum * power_of_2(a.largest - largest) + b.sum * power_of_2(b.largest - largest)};
}

// Merges the states of all threads of a block in a fixed order and returns the result to each.
// `scratch` holds one state a warp. Consecutive calls use different buffers, so one barrier is
// enough.
template <int kThreads>
__device__ Softmax block_merged(Softmax mine, Softmax* scratch) {
  for (int offset = 16; offset > 0; offset /= 2) {
    const Softmax other = {__shfl_xor_sync(~0U, mine.largest, offset),
                           __shfl_xor_sync(~0U, mine.sum, offset)};
    mine = merged(mine, other);  // lane 0 holds the result
  }
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = mine;
  __syncthreads();
  Softmax all = scratch[0];
  for (int warp = 1; warp < kThreads / 32; ++warp) all = merged(all, scratch[warp]);
  return all;
}

// Merges the states of the blocks of a cluster in a fixed order. Each block writes its state to the
// shared memory of all. Consecutive calls use different `places`, so that one cluster barrier is
// enough.
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
