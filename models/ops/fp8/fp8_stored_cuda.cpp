#include <c10/cuda/CUDAGuard.h>

#include "models/ops/cuda/current_stream.h"
#include "models/ops/fp8/fp8_launch.h"
#include "models/ops/fp8/fp8_stored.h"

namespace packtrain {

void fp8_decode_cuda(const at::Tensor& codes, const at::Tensor& scale, const at::Tensor& values) {
  const c10::cuda::CUDAGuard guard(codes.device());
  if (codes.numel() == 0) return;
  launch_fp8_decode({codes.const_data_ptr<std::uint8_t>(), scale.const_data_ptr<float>(),
                     values.data_ptr(), codes.numel(), float_type_of(values, "fp8")},
                    current_stream(codes));
}

}  // namespace packtrain
