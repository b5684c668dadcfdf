// Replaces NCCL in a build without CUDA.
#include "framework/core/error.h"
#include "parallel/communicators/nccl/nccl_communicator.h"

namespace packtrain {

std::unique_ptr<Communicator> make_nccl_communicator(Communicator& /*control*/,
                                                     const CommunicatorOptions& /*options*/) {
  throw Error(ErrorCategory::kDevice, "the nccl backend was asked for, but this build has no CUDA",
              "Build with nvcc on PATH and -DPACKTRAIN_CUDA=ON, or train on the CPU.");
}

}  // namespace packtrain
