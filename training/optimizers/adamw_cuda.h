#pragma once

#include "training/optimizers/adamw_arguments.h"

namespace packtrain {

// Runs on libtorch's current stream of the device. Throws Error(kDevice) in a build without CUDA.
void adamw_cuda(const AdamWArguments& arguments, int device_index);

// The kernel; `stream` is a cudaStream_t. Throws Error(kDevice) when the launch fails.
void launch_adamw(const AdamWArguments& arguments, void* stream);

}  // namespace packtrain
