#include "framework/device/cuda/check.h"

#include <fmt/format.h>

#include "framework/support/error.h"

namespace packtrain {

void throw_cuda_error(cudaError_t status, const char* call, const char* file, int line) {
  throw Error(
      ErrorCategory::kDevice,
      fmt::format("{} failed at {}:{}: {} ({})", call, file, line, cudaGetErrorString(status),
                  cudaGetErrorName(status)),
      "A kernel started earlier may be the cause: CUDA_LAUNCH_BLOCKING=1 reports errors where "
      "they arise.");
}

}  // namespace packtrain
