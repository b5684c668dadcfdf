#include "models/ops/cuda/hopper/tensor_map.h"

#include <cudaTypedefs.h>

#include <string>

#include "framework/core/error.h"
#include "framework/device/cuda/check.h"

namespace packtrain {
namespace {

// Looks the function up at run time. Linking libcuda would fail on machines without a GPU driver.
PFN_cuTensorMapEncodeTiled_v12000 find_encode() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  PACKTRAIN_CUDA_CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                                        cudaEnableDefault, &found));
  if (found != cudaDriverEntryPointSuccess) {
    throw Error(ErrorCategory::kDevice, "the driver has no cuTensorMapEncodeTiled",
                "Install a driver for CUDA 13 (580 or newer).");
  }
  return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(function);
}

}  // namespace

CUtensorMap make_bf16_tensor_map(const void* matrix, const MatrixExtent& extent,
                                 const BoxExtent& box) {
  static const auto encode = find_encode();
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(extent.columns),
                              static_cast<cuuint64_t>(extent.rows)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(extent.stride) * 2};  // bytes between rows
  const cuuint32_t boxes[] = {static_cast<cuuint32_t>(box.columns),
                              static_cast<cuuint32_t>(box.rows)};
  const cuuint32_t steps[] = {1, 1};
  CUtensorMap map{};
  const CUresult result =
      encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, const_cast<void*>(matrix), sizes, strides,
             boxes, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    throw Error(ErrorCategory::kDevice,
                "cuTensorMapEncodeTiled: error " + std::to_string(static_cast<int>(result)) +
                    " for " + std::to_string(extent.rows) + " x " + std::to_string(extent.columns) +
                    " bfloat16, rows " + std::to_string(extent.stride) + " apart");
  }
  return map;
}

}  // namespace packtrain
