// Replaces the CUDA operators in a build without CUDA.
#include "framework/core/error.h"
#include "training/optimizers/adamw8_arguments.h"
#include "training/optimizers/adamw_cuda.h"
#include "training/optimizers/moment_update_cuda.h"
#include "training/optimizers/sophia_cuda.h"

namespace packtrain {

void adamw_cuda(const AdamWArguments& /*arguments*/, int /*device_index*/) {
  throw Error(ErrorCategory::kDevice,
              "adamw was called on a CUDA tensor, but this build has no CUDA",
              "Build with nvcc on PATH and -DPACKTRAIN_CUDA=ON, or train on the CPU.");
}

void adamw8_cuda(const AdamW8Arguments& /*arguments*/, int /*device_index*/) {
  throw Error(ErrorCategory::kDevice,
              "adamw8 was called on a CUDA tensor, but this build has no CUDA",
              "Build with nvcc on PATH and -DPACKTRAIN_CUDA=ON, or train on the CPU.");
}

void moment_update_cuda(const MomentArguments& /*arguments*/, int /*device_index*/) {
  throw Error(ErrorCategory::kDevice,
              "an optimizer was called on a CUDA tensor, but this build has no CUDA",
              "Build with nvcc on PATH and -DPACKTRAIN_CUDA=ON, or train on the CPU.");
}

void sophia_cuda(const SophiaArguments& /*arguments*/, int /*device_index*/) {
  throw Error(ErrorCategory::kDevice,
              "sophia was called on a CUDA tensor, but this build has no CUDA",
              "Build with nvcc on PATH and -DPACKTRAIN_CUDA=ON, or train on the CPU.");
}

}  // namespace packtrain
