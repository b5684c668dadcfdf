// Blocks that run on neighbouring multiprocessors and reach each other's shared memory (thread
// block clusters; compute capability 9.0 and later, elsewhere every block is alone).
#pragma once

#include <nv/target>

#include <cstdint>

namespace packtrain::device {

// Which of its cluster's blocks this is.
__device__ inline int block_rank_in_cluster() {
  std::uint32_t rank = 0;
  NV_IF_TARGET(NV_PROVIDES_SM_90, (asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));))
  return static_cast<int>(rank);
}

// All threads of all blocks of the cluster; what they wrote to shared memory before is seen after.
__device__ inline void cluster_sync() {
  NV_IF_TARGET(NV_PROVIDES_SM_90,
               (asm volatile("barrier.cluster.arrive.release.aligned;" :: : "memory");
                asm volatile("barrier.cluster.wait.acquire.aligned;" :: : "memory");))
}

// Writes `value` to where `place`, of this block's shared memory, is in that of block `rank`.
__device__ inline void store_shared_cluster(float value, const float* place, int rank) {
  [[maybe_unused]] const auto here = static_cast<std::uint32_t>(__cvta_generic_to_shared(place));
  [[maybe_unused]] std::uint32_t there = 0;
  NV_IF_TARGET(
      NV_PROVIDES_SM_90,
      (asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(rank));
       asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(there), "f"(value) : "memory");))
}

}  // namespace packtrain::device
