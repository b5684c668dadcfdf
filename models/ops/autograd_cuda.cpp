#include "models/ops/autograd_cuda.h"
#include "framework/device/cuda/check.h"

namespace packtrain {

void attach_cuda_context() {
  thread_local bool attached = false;
  if (attached) return;
  PACKTRAIN_CUDA_CHECK(cudaFree(nullptr));
  attached = true;
}

}  // namespace packtrain
