// Barriers in shared memory that threads and tensor copies arrive at (mbarrier). A barrier has
// phases that end when as many have arrived as it was made for, and all bytes that were announced;
// the parity of a phase, 0 for the first, says which one is waited for.
#pragma once

#include <cstdint>

namespace packtrain::device {

__device__ inline std::uint32_t shared_address(const void* place) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(place));
}

class Barrier {
 public:
  __device__ void init(int num_arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&state_)),
                 "r"(num_arrivals));
  }

  // One arrival, and bytes that copies still bring before the phase can end.
  __device__ void arrive_and_expect_tx(int num_bytes) {
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&state_)),
        "r"(num_bytes)
        : "memory");
  }

  __device__ void arrive() {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&state_))
                 : "memory");
  }

  // At the barrier in the same place of block `rank` of the cluster.
  __device__ void arrive_cluster(int rank) {
    std::uint32_t there = 0;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                 : "=r"(there)
                 : "r"(shared_address(&state_)), "r"(rank));
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(there) : "memory");
  }

  // Until the phase of this parity has ended.
  __device__ void wait(int parity) {
    std::uint32_t ended = 0;
    while (ended == 0) {
      asm volatile(
          "{ .reg .pred p;\n"
          "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
          "selp.u32 %0, 1, 0, p; }"
          : "=r"(ended)
          : "r"(shared_address(&state_)), "r"(parity)
          : "memory");
    }
  }

  __device__ std::uint32_t address() const { return shared_address(&state_); }

 private:
  std::uint64_t state_;
};

// After init(), by the thread that called it, before a barrier of the block or cluster.
__device__ inline void fence_barrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

}  // namespace packtrain::device
