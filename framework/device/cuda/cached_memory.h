// libtorch's allocator of device memory, for framework/device/tensor_memory.cpp. A stub does
// nothing where there is no CUDA, and so no such device.
#pragma once

#include <cstddef>
#include <cstdint>

namespace packtrain {

void cap_cached_memory(int device, std::size_t bytes, std::size_t total_bytes);
void release_cached_memory();
std::int64_t num_cached_memory_retries(int device);

}  // namespace packtrain
