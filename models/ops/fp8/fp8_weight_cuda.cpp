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

}  // namespace packtrain
