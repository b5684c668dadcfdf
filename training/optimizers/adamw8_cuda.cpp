#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "training/optimizers/adamw8_arguments.h"

namespace packtrain {

void adamw8_cuda(const AdamW8Arguments& arguments, int device_index) {
  const auto device = static_cast<c10::DeviceIndex>(device_index);
  const c10::cuda::CUDAGuard guard(device);
  launch_adamw8(arguments, c10::cuda::getCurrentCUDAStream(device).stream());
}

}  // namespace packtrain
