// Total memory of tensors: its limit, and the unused part.
#pragma once

#include <cstddef>
#include <cstdint>

#include "framework/device/device.h"

namespace packtrain {

// Limits the memory of the device's tensors to `bytes` (on the CPU: of tensors created from now
// on). An allocation beyond it throws c10::OutOfMemoryError, as without free memory.
void cap_tensor_memory(const Device& device, std::size_t bytes);

// Returns unused memory of the allocator to the device. Waits for the device.
void release_unused_tensor_memory(const Device& device);

// Number of allocations since the start that succeeded only after the allocator had freed its
// cached blocks. It indicates memory that is nearly full or fragmented. 0 on the CPU.
std::int64_t num_allocation_retries(const Device& device);

}  // namespace packtrain
