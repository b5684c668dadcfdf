#pragma once

#include "training/optimizers/sophia_arguments.h"

namespace packtrain {

// Runs on libtorch's current stream of the device. Throws Error(kDevice) in a build without CUDA.
void sophia_cuda(const SophiaArguments& arguments, int device_index);

// The kernels; `stream` is a cudaStream_t. Throws Error(kDevice) when the launch fails.
void launch_sophia(const SophiaArguments& arguments, void* stream);

}  // namespace packtrain
