#include "models/ops/cuda/current_stream.h"

#include <c10/cuda/CUDAStream.h>

#include <string>

#include "framework/core/error.h"

namespace packtrain {

void* current_stream(const at::Tensor& tensor) {
  return c10::cuda::getCurrentCUDAStream(tensor.device().index()).stream();
}

DataType float_type_of(const at::Tensor& tensor, const char* what) {
  if (tensor.scalar_type() == at::kBFloat16) return DataType::kBFloat16;
  if (tensor.scalar_type() == at::kFloat) return DataType::kFloat32;
  throw Error(ErrorCategory::kInternal,
              std::string(what) + ": got " + tensor.toString() + ", wanted float32 or bfloat16");
}

}  // namespace packtrain
