// An mbarrier in shared memory. Threads and TMA copies arrive at it. A phase ends when all expected
// threads have arrived and all announced bytes have come. The argument of wait() is the parity of a
// phase: 0 for the first phase, then 1, then 0. On a new barrier wait(1) returns immediately,
// because the phase before the first counts as complete.
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

  // Arrives once and announces bytes. The phase cannot end before TMA copies have written them.
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

  // Arrives at the barrier at the same offset in the shared memory of block `rank` of the cluster.
  __device__ void arrive_cluster(int rank) {
    std::uint32_t there = 0;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                 : "=r"(there)
                 : "r"(shared_address(&state_)), "r"(rank));
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(there) : "memory");
  }

  // Waits until the phase of this parity has ended. Later reads see what arriving threads and
  // copies wrote before (acquire).
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

// The thread that called init() calls this before a block or cluster barrier. It makes the
// initialized mbarriers visible to the cluster and to TMA.
__device__ inline void fence_barrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

}  // namespace packtrain::device
