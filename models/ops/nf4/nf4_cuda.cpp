#include "models/ops/nf4/nf4.h"

#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAGuard.h>

#include <algorithm>

#include "framework/core/error.h"
#include "models/ops/cuda/current_stream.h"
#include "models/ops/nf4/nf4_launch.h"

namespace packtrain {
namespace {

Nf4Values values_type(const at::Tensor& values) {
  if (values.scalar_type() == at::kFloat) return Nf4Values::kFloat32;
  if (values.scalar_type() == at::kBFloat16) return Nf4Values::kBFloat16;
  throw Error(ErrorCategory::kInternal, "nf4: values are float32 or bfloat16");
}

}  // namespace

void nf4_decode_cuda(const EncodedParameter& parameter, const at::Tensor& values) {
  const c10::cuda::CUDAGuard guard(values.device());
  constexpr auto kMaxRanges = static_cast<std::size_t>(Nf4DecodeArguments::kMaxRanges);
  const auto* groups = parameter.bytes.const_data_ptr<std::uint8_t>();
  for (std::size_t r = 0; r < parameter.ranges.size(); r += kMaxRanges) {
    Nf4DecodeArguments arguments;
    arguments.groups = groups;
    arguments.values = values.data_ptr();
    arguments.type = values_type(values);
    std::int64_t num_groups = 0;
    for (std::size_t i = r; i < std::min(parameter.ranges.size(), r + kMaxRanges); ++i) {
      const ElementRange& range = parameter.ranges[i];
      arguments.begin[i - r] = range.begin;
      arguments.numel[i - r] = range.numel;
      num_groups += num_nf4_groups(range.numel);
      arguments.first_group[i - r + 1] = num_groups;
      ++arguments.num_ranges;
    }
    launch_nf4_decode(arguments, current_stream(values));
    groups += num_groups * kNf4GroupBytes;
  }
}

at::Tensor nf4_absmax_cuda(const at::Tensor& values) {
  const c10::cuda::CUDAGuard guard(values.device());
  const std::int64_t num_blocks = values.numel() / kNf4BlockElements;
  at::Tensor absmax = at::empty({num_blocks}, values.options().dtype(at::kFloat));
  if (num_blocks == 0) return absmax;
  launch_nf4_absmax(
      {values.const_data_ptr(), values_type(values), num_blocks, absmax.data_ptr<float>()},
      current_stream(values));
  return absmax;
}

void nf4_quantize_cuda(const at::Tensor& values, float offset, const at::Tensor& groups) {
  if (values.numel() == 0) return;
  const c10::cuda::CUDAGuard guard(values.device());
  launch_nf4_quantize({values.const_data_ptr(), values_type(values),
                       values.numel() / kNf4BlockElements, offset, groups.data_ptr<std::uint8_t>()},
                      current_stream(values));
}

}  // namespace packtrain
