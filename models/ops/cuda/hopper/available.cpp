#include "models/ops/cuda/hopper/available.h"

#include "framework/device/cuda/check.h"

namespace packtrain {

bool has_hopper_kernels() {
  int device = 0;
  int major = 0;
  int minor = 0;
  PACKTRAIN_CUDA_CHECK(cudaGetDevice(&device));
  PACKTRAIN_CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  PACKTRAIN_CUDA_CHECK(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  return major == 9 && minor == 0;
}

}  // namespace packtrain
