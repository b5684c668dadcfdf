// Boxes of a matrix in global memory to shared memory by the copy engine of a multiprocessor (TMA).
#pragma once

#include <cuda.h>

#include <cstdint>

#include "models/ops/cuda/hopper/barrier.cuh"

namespace packtrain::device {

// The box whose first element is (column, row) of the map's matrix; `arrived` gets its bytes, those
// outside the matrix too, which are zeros.
__device__ inline void tma_load_2d(const CUtensorMap& map, int column, int row, void* to,
                                   const Barrier& arrived) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3}], [%4];" ::"r"(shared_address(to)),
      "l"(reinterpret_cast<std::uint64_t>(&map)), "r"(column), "r"(row), "r"(arrived.address())
      : "memory");
}

// The same into the same place of all blocks of the cluster that `blocks` has a bit of; each one's
// barrier in the place of `arrived` gets the bytes.
__device__ inline void tma_load_2d_multicast(const CUtensorMap& map, int column, int row, void* to,
                                             const Barrier& arrived, std::uint16_t blocks) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(shared_address(to)),
      "l"(reinterpret_cast<std::uint64_t>(&map)), "r"(column), "r"(row), "r"(arrived.address()),
      "h"(blocks)
      : "memory");
}

// Brings the line of 128 bytes that this is in to L2, and waits for nothing.
__device__ inline void prefetch_l2(const void* place) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(place)));
}

// What this thread wrote to shared memory is seen by copies and products that start after a
// barrier.
__device__ inline void fence_proxy_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

}  // namespace packtrain::device
