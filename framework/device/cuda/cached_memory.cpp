#include "framework/device/cuda/cached_memory.h"

#include <c10/cuda/CUDACachingAllocator.h>

#include <algorithm>

namespace packtrain {

void cap_cached_memory(int device, std::size_t bytes, std::size_t total_bytes) {
  const double share = static_cast<double>(bytes) / static_cast<double>(total_bytes);
  c10::cuda::CUDACachingAllocator::setMemoryFraction(std::min(share, 1.0),
                                                     static_cast<c10::DeviceIndex>(device));
}

void release_cached_memory() {
  c10::cuda::CUDACachingAllocator::emptyCache();
}

std::int64_t num_cached_memory_retries(int device) {
  return c10::cuda::CUDACachingAllocator::getDeviceStats(static_cast<c10::DeviceIndex>(device))
      .num_alloc_retries;
}

}  // namespace packtrain
