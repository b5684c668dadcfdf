#include "training/optimizers/sophia_cuda.h"

#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

namespace packtrain {

void sophia_cuda(const SophiaArguments& arguments, int device_index) {
  const auto device = static_cast<c10::DeviceIndex>(device_index);
  const c10::cuda::CUDAGuard guard(device);
  launch_sophia(arguments, c10::cuda::getCurrentCUDAStream(device).stream());
}

}  // namespace packtrain
