// libtorch runs backward on threads of its own, which begin without a CUDA context.
#pragma once

namespace packtrain {

// Makes the device's context current in the calling thread, once per thread; cuBLAS would warn.
void attach_cuda_context();

}  // namespace packtrain
