#include "models/ops/fp8/fp8_weight.h"

#include <ATen/ops/empty.h>
#include <c10/util/StringUtil.h>

#include <bit>
#include <cstdint>

#include "framework/core/error.h"
#include "models/ops/fp8/fp8.h"
#include "models/ops/fp8/fp8_arithmetic.h"

namespace packtrain {
namespace {

// Elements of a row of a part of a weight, as it is cast: whole tiles.
constexpr std::int64_t kPartRow = 256;

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

void fp8_encode(const at::Tensor& values, const at::Tensor& scale, const at::Tensor& codes) {
  if (values.dim() != 1 || values.numel() % kPartRow != 0 || codes.numel() != values.numel()) {
    throw Error(ErrorCategory::kInternal,
                c10::str("fp8_encode: got ", values.sizes(), " values and ", codes.sizes(),
                         " codes, wanted [n] of both, n a multiple of ", kPartRow));
  }
  fp8_cast_into(values.view({-1, kPartRow}), scale, {.has_known_scale = true},
                {.rows = codes, .columns = {}});
}

at::Tensor fp8_transpose(const at::Tensor& codes) {
  if (codes.dim() != 2 || codes.element_size() != 1 || codes.size(0) % kFp8Alignment != 0 ||
      codes.size(1) % kFp8Alignment != 0 || !codes.is_contiguous()) {
    throw Error(ErrorCategory::kInternal,
                c10::str("fp8_transpose: got ", codes.toString(), " ", codes.sizes(),
                         ", wanted contiguous codes [M, K], multiples of ", kFp8Alignment));
  }
  at::Tensor columns = at::empty({codes.size(1), codes.size(0)}, codes.options());
  if (codes.is_cuda()) {
    fp8_transpose_cuda(codes, columns);
  } else {
    columns.view(at::kByte).copy_(codes.view(at::kByte).t());
  }
  return columns;
}

}  // namespace packtrain
