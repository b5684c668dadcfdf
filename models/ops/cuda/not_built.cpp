#include "models/ops/cuda/not_built.h"

#include <string>

#include "framework/core/error.h"

namespace packtrain {

void throw_cuda_not_built(const char* operator_name) {
  throw Error(
      ErrorCategory::kDevice,
      std::string(operator_name) + " was called on a CUDA tensor, but this build has no CUDA",
      "Build with nvcc on PATH and -DPACKTRAIN_CUDA=ON, or train on the CPU.");
}

}  // namespace packtrain
