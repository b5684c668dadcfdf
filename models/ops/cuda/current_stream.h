// libtorch's current stream.
#pragma once

#include <ATen/core/Tensor.h>

#include "framework/core/data_type.h"

namespace packtrain {

// cudaStream_t of libtorch's current stream on the tensor's device.
void* current_stream(const at::Tensor& tensor);

// Returns kBFloat16 or kFloat32. Throws Error(kInternal), which names `what`, for
// other dtypes.
DataType float_type_of(const at::Tensor& tensor, const char* what);

}  // namespace packtrain
