#include "models/ops/fp8/fp8_weight.h"

#include <c10/util/StringUtil.h>

#include <bit>
#include <cstdint>

#include "framework/core/error.h"
#include "models/ops/fp8/fp8_arithmetic.h"

namespace packtrain {
namespace {

void check(const at::Tensor& amax, const at::Tensor& scales) {
  if (amax.scalar_type() == at::kInt && amax.dim() == 1 && amax.is_contiguous() &&
      scales.scalar_type() == at::kFloat && scales.numel() == kFp8ScaleStride * amax.numel() &&
      scales.is_contiguous() && scales.device() == amax.device()) {
    return;
  }
  throw Error(ErrorCategory::kInternal,
              c10::str("fp8_weight_scales: got amax ", amax.toString(), " ", amax.sizes(),
                       " and scales ", scales.toString(), " ", scales.sizes(),
                       ", wanted contiguous int32 [n] and float32 [n, ", kFp8ScaleStride,
                       "] of one device"));
}

}  // namespace

void fp8_weight_scales(const at::Tensor& amax, const at::Tensor& scales) {
  check(amax, scales);
  if (amax.is_cuda()) return fp8_weight_scales_cuda(amax, scales);
  const auto* bits = amax.const_data_ptr<std::int32_t>();
  auto* values = scales.mutable_data_ptr<float>();
  for (std::int64_t i = 0; i < amax.numel(); ++i) {
    const auto most = static_cast<std::uint32_t>(bits[i]);
    float* scale = values + i * kFp8ScaleStride;
    scale[0] = std::bit_cast<float>(fp8::scale_of(most, Fp8Format::kE4M3).factor);
    scale[1] = std::bit_cast<float>(most);
  }
}

}  // namespace packtrain
