// The memory of tensors as a whole: what it may be at most, and what lies unused.
#pragma once

#include <cstddef>
#include <cstdint>

#include "framework/device/device.h"

namespace packtrain {

// From now on tensors of the device may take `bytes` in all (on the CPU: those made from now on).
// What would go beyond fails as it does where the device has no more: with c10::OutOfMemoryError.
void cap_tensor_memory(const Device& device, std::size_t bytes);

// Gives what the allocator keeps for reuse back to the device. Waits for the device.
void release_unused_tensor_memory(const Device& device);

// Allocations since the start that succeeded only after the allocator had given back what it kept:
// a sign of memory that is nearly all in use, or in pieces. 0 on the CPU.
std::int64_t num_allocation_retries(const Device& device);

}  // namespace packtrain
