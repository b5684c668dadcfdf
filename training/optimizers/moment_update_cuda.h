#pragma once

#include "training/optimizers/moment_arguments.h"

namespace packtrain {

// On libtorch's current stream of the device. Throws Error(kDevice) in a build without CUDA.
void moment_update_cuda(const MomentArguments& arguments, int device_index);
// The kernel; `stream` is a cudaStream_t. Throws Error(kDevice) when the launch fails.
void launch_moment_update(const MomentArguments& arguments, void* stream);

}  // namespace packtrain
