// A second stream next to libtorch's current one, for small kernels that would leave the GPU idle.
#pragma once

#include <ATen/core/Tensor.h>

#include "framework/device/cuda/cuda_stream.h"

namespace packtrain {

class SideStream {
 public:
  // Work on the side stream starts after all work that the current stream of the tensor's device
  // has received so far. Its priority is high, so it starts before work that the current stream has
  // not started yet.
  explicit SideStream(const at::Tensor& tensor);
  // The current stream continues after all work of the side stream. Memory that the side stream
  // uses must live until then. Called once.
  void join();
  void* stream() const { return side_.stream(); }

 private:
  c10::cuda::CUDAStream main_;
  c10::cuda::CUDAStream side_;
  CudaEvent forked_;
  CudaEvent joined_;
};

}  // namespace packtrain
