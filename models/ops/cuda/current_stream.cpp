#include "models/ops/cuda/current_stream.h"

#include <c10/cuda/CUDAStream.h>

#include <string>

#include "framework/core/error.h"

namespace packtrain {

void* current_stream(const at::Tensor& tensor) {
  return c10::cuda::getCurrentCUDAStream(tensor.device().index()).stream();
}

bool is_bfloat16(const at::Tensor& tensor, const char* what) {
  if (tensor.scalar_type() == at::kBFloat16) return true;
  if (tensor.scalar_type() == at::kFloat) return false;
  throw Error(ErrorCategory::kInternal,
              std::string(what) + ": got " + tensor.toString() + ", wanted float32 or bfloat16");
}

}  // namespace packtrain
