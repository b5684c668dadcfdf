// Copies of 16 bytes from global to shared memory that a thread does not wait for (cp.async).
#pragma once

#include <cstdint>

namespace packtrain::device {

// `present` false: 16 bytes of zeros, nothing is read.
__device__ inline void cp_async(const void* from, void* to, bool present) {
  const auto shared = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(from),
               "r"(present ? 16 : 0)
               : "memory");
}

// Ends a group of this thread's copies.
__device__ inline void cp_async_commit_group() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// Until only the last `kGroups` groups may still be under way.
template <int kGroups>
__device__ void cp_async_wait_group() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroups) : "memory");
}

}  // namespace packtrain::device
