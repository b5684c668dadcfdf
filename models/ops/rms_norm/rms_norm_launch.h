#pragma once

#include "models/ops/cuda/row_norm_launch.h"

namespace packtrain {

// Rows of partial sums that backward writes for these arguments.
std::int64_t rms_norm_backward_blocks(const NormArguments& arguments);

// Forward, or backward when grad_output is set. `stream` is a cudaStream_t. Throws Error(kDevice)
// when the launch fails.
void launch_rms_norm(const NormArguments& arguments, void* stream);

}  // namespace packtrain
