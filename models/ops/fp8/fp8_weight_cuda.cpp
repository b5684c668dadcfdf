#include "models/ops/fp8/fp8_weight.h"

#include <c10/cuda/CUDAGuard.h>

#include "models/ops/cuda/current_stream.h"
#include "models/ops/fp8/fp8.h"
#include "models/ops/fp8/fp8_weight_launch.h"

namespace packtrain {

void fp8_weight_scales_cuda(const at::Tensor& amax, const at::Tensor& scales) {
  const c10::cuda::CUDAGuard guard(amax.device());
  if (amax.numel() == 0) return;
  launch_fp8_weight_scales(fp8_amax_slots(amax), scales.mutable_data_ptr<float>(), amax.numel(),
                           kFp8ScaleStride, current_stream(amax));
}

void fp8_transpose_cuda(const at::Tensor& codes, const at::Tensor& columns) {
  const c10::cuda::CUDAGuard guard(codes.device());
  if (codes.numel() == 0) return;
  launch_fp8_transpose(static_cast<const std::uint8_t*>(codes.const_data_ptr()),
                       static_cast<std::uint8_t*>(columns.mutable_data_ptr()), codes.size(0),
                       codes.size(1), current_stream(codes));
}

}  // namespace packtrain
