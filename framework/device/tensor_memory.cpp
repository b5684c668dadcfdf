#include "framework/device/tensor_memory.h"

#include <malloc.h>

#include "framework/device/cpu/capped_allocator.h"
#include "framework/device/cuda/cached_memory.h"

namespace packtrain {

void cap_tensor_memory(const Device& device, std::size_t bytes) {
  if (device.kind() == DeviceKind::kCuda) {
    cap_cached_memory(device.index(), bytes, device.total_memory_bytes());
  } else {
    cap_cpu_tensors(bytes);
  }
}

void release_unused_tensor_memory(const Device& device) {
  if (device.kind() == DeviceKind::kCuda) {
    release_cached_memory();
  } else {
    malloc_trim(0);
  }
}

std::int64_t num_allocation_retries(const Device& device) {
  return device.kind() == DeviceKind::kCuda ? num_cached_memory_retries(device.index()) : 0;
}

}  // namespace packtrain
