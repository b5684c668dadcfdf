// Collectives over NCCL for memory of the process's CUDA device.
#pragma once

#include <memory>

#include "parallel/communicators/communicator.h"

namespace packtrain {

// A communicator of the ranks of `control`, which broadcasts NCCL's id. Collective; the CUDA device
// must be selected before. Throws Error(kDevice) when built without CUDA, or when the NCCL found at
// run time is older than that of the build.
std::unique_ptr<Communicator> make_nccl_communicator(Communicator& control,
                                                     const CommunicatorOptions& options);

}  // namespace packtrain
