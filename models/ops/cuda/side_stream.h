// A second stream beside libtorch's current one, for small kernels that would leave the GPU idle.
#pragma once

#include <ATen/core/Tensor.h>

#include "framework/device/cuda/cuda_stream.h"

namespace packtrain {

class SideStream {
 public:
  // What is given to the side stream starts after all work given to the current stream of the
  // tensor's device so far, and before what that has yet to start: its priority is high.
  explicit SideStream(const at::Tensor& tensor);
  // The current stream goes on after all that was given to the side stream. Memory that the side
  // stream uses must live until then. To be called once.
  void join();
  void* stream() const { return side_.stream(); }

 private:
  c10::cuda::CUDAStream main_;
  c10::cuda::CUDAStream side_;
  CudaEvent forked_;
  CudaEvent joined_;
};

}  // namespace packtrain
