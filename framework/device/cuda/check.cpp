#include "framework/device/cuda/check.h"

#include <string>

#include "framework/core/error.h"

namespace packtrain {

void throw_cuda_error(cudaError_t status, const char* call, const char* file, int line) {
  const std::string place = std::string(file) + ":" + std::to_string(line);
  throw Error(ErrorCategory::kDevice,
              std::string(call) + " failed at " + place + ": " + cudaGetErrorString(status) + " (" +
                  cudaGetErrorName(status) + ")",
              "A kernel started earlier may be the cause: CUDA_LAUNCH_BLOCKING=1 reports errors "
              "where they arise.");
}

}  // namespace packtrain
