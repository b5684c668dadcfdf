// TMA copies of boxes of a matrix between global memory and shared memory.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "models/ops/cuda/hopper/barrier.cuh"

namespace packtrain::device {

// Copies the box whose first element is (column, row) of the map's matrix. `arrived` receives the
// bytes of the whole box: elements outside the matrix become zeros and count too.
__device__ inline void tma_load_2d(const CUtensorMap& map, int column, int row, void* to,
                                   const Barrier& arrived) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3}], [%4];" ::"r"(shared_address(to)),
      "l"(reinterpret_cast<std::uint64_t>(&map)), "r"(column), "r"(row), "r"(arrived.address())
      : "memory");
}

// Copies the same box to the same offset in each block of the cluster that has a bit in `blocks`.
// The barrier at the offset of `arrived` in each of these blocks receives the bytes.
__device__ inline void tma_load_2d_multicast(const CUtensorMap& map, int column, int row, void* to,
                                             const Barrier& arrived, std::uint16_t blocks) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(shared_address(to)),
      "l"(reinterpret_cast<std::uint64_t>(&map)), "r"(column), "r"(row), "r"(arrived.address()),
      "h"(blocks)
      : "memory");
}

// Copies a box from shared memory to the map's matrix. Elements outside the matrix are not written.
// The thread's copies since its last tma_store_commit() form a group.
__device__ inline void tma_store_2d(const CUtensorMap& map, int column, int row, const void* from) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(
                   reinterpret_cast<std::uint64_t>(&map)),
               "r"(column), "r"(row), "r"(shared_address(from))
               : "memory");
}
__device__ inline void tma_store_commit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// Waits until all but this thread's last `kGroups` groups have read their shared memory.
template <int kGroups>
__device__ void tma_store_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kGroups) : "memory");
}

// Prefetches to L2 the 128-byte line that contains this address. Does not wait.
__device__ inline void prefetch_l2(const void* place) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(place)));
}

// Orders this thread's generic-proxy writes to shared memory before later accesses by the async
// proxy (TMA and wgmma). A barrier must follow before other threads issue them.
__device__ inline void fence_proxy_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

}  // namespace packtrain::device
