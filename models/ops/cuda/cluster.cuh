// Thread block clusters: blocks that run on neighbouring multiprocessors and reach each other's
// shared memory. They need compute capability 9.0. On older GPUs each block is its own cluster.
#pragma once

#include <nv/target>

#include <cstdint>

namespace packtrain::device {

// Rank of this block in its cluster.
__device__ inline int block_rank_in_cluster() {
  std::uint32_t rank = 0;
  NV_IF_TARGET(NV_PROVIDES_SM_90, (asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));))
  return static_cast<int>(rank);
}

// Barrier of all threads of the cluster. Shared memory writes before it are visible after it
// (release, acquire).
__device__ inline void cluster_sync() {
  NV_IF_TARGET(NV_PROVIDES_SM_90,
               (asm volatile("barrier.cluster.arrive.release.aligned;" :: : "memory");
                asm volatile("barrier.cluster.wait.acquire.aligned;" :: : "memory");))
}

// Writes `value` to the shared memory of block `rank`, at the offset that `place` has in this
// block.
__device__ inline void store_shared_cluster(float value, const float* place, int rank) {
  [[maybe_unused]] const auto here = static_cast<std::uint32_t>(__cvta_generic_to_shared(place));
  [[maybe_unused]] std::uint32_t there = 0;
  NV_IF_TARGET(
      NV_PROVIDES_SM_90,
      (asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(rank));
       asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(there), "f"(value) : "memory");))
}

}  // namespace packtrain::device
