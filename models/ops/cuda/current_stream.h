// The stream that libtorch's operators run on now.
#pragma once

#include <ATen/core/Tensor.h>

namespace packtrain {

// cudaStream_t of libtorch's current stream on the tensor's device.
void* current_stream(const at::Tensor& tensor);

// Throws Error(kInternal) naming `what` unless float32 or bfloat16; true for bfloat16.
bool is_bfloat16(const at::Tensor& tensor, const char* what);

}  // namespace packtrain
