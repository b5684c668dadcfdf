// cp.async: copies of 16 or of 4 bytes from global to shared memory. The issuing thread does not
// wait.
#pragma once

#include <cstdint>

namespace packtrain::device {

// If not `present`, reads nothing and writes 16 bytes of zeros.
__device__ inline void cp_async(const void* from, void* to, bool present) {
  const auto shared = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(from),
               "r"(present ? 16 : 0)
               : "memory");
}

// The same of 4 bytes.
__device__ inline void cp_async_word(const void* from, void* to, bool present) {
  const auto shared = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared), "l"(from),
               "r"(present ? 4 : 0)
               : "memory");
}

// Commits this thread's copies since the last commit as one group.
__device__ inline void cp_async_commit_group() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until at most the last `kGroups` groups are still in flight.
template <int kGroups>
__device__ void cp_async_wait_group() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroups) : "memory");
}

}  // namespace packtrain::device
