#pragma once

#include <cuda_runtime_api.h>

namespace packtrain {

// Throws Error(kDevice) unless this build has kernels for the current device, whose compute
// capability is major.minor.
void check_architecture(const char* gpu_name, int major, int minor);

// The compute capability that the kernels which run on this process's device were compiled for: 80,
// 90, 120. It is lower than the device's own where the driver compiles them from PTX of an older
// one. Code for NV_PROVIDES_SM_90 is in a kernel from 90 on.
int compiled_architecture();

// An attribute of the current device.
int device_attribute(cudaDeviceAttr attribute);

// The shared memory, in bytes, that a block of the current device may have: static and dynamic.
int max_shared_memory_per_block();

}  // namespace packtrain
