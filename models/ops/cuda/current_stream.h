// libtorch's current stream.
#pragma once

#include <ATen/core/Tensor.h>

namespace packtrain {

// cudaStream_t of libtorch's current stream on the tensor's device.
void* current_stream(const at::Tensor& tensor);

// Returns true for bfloat16 and false for float32. Throws Error(kInternal), which names `what`, for
// other dtypes.
bool is_bfloat16(const at::Tensor& tensor, const char* what);

}  // namespace packtrain
