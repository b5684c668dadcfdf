// Access to libtorch's CUDA allocator for framework/device/tensor_memory.cpp. The stub does
// nothing, because without CUDA there is no such device.
#pragma once

#include <cstddef>
#include <cstdint>

namespace packtrain {

void cap_cached_memory(int device, std::size_t bytes, std::size_t total_bytes);
void release_cached_memory();
std::int64_t num_cached_memory_retries(int device);

}  // namespace packtrain
