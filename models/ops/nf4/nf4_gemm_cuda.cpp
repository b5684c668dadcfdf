#include "models/ops/nf4/nf4_gemm_cuda.h"

#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAGuard.h>

#include <algorithm>

#include "models/block/nf4_groups.h"
#include "models/ops/cuda/current_stream.h"
#include "models/ops/cuda/hopper/available.h"
#include "models/ops/nf4/nf4_gemm_launch.h"

namespace packtrain {
namespace {

constexpr std::int64_t kMaxRows = 512;
constexpr std::int64_t kVectorElements = 8;  // elements of 16 bytes
constexpr std::int64_t kDepthStep = 64;
constexpr std::int64_t kWordElements = 4 * kNf4BlockElements;  // of a word of absmax codes

bool starts_at_vector(const at::Tensor& x) {
  return reinterpret_cast<std::uintptr_t>(x.const_data_ptr()) % 16 == 0;
}

bool is_taken_matrix(const at::Tensor& x) {
  return x.is_cuda() && x.scalar_type() == at::kBFloat16 && x.dim() == 2 && x.stride(1) == 1 &&
         x.stride(0) % kVectorElements == 0 && x.stride(0) >= x.size(1) && starts_at_vector(x);
}

bool is_in_nf4(const Parameter& weight) {
  return weight.encoded != nullptr && weight.encoded->format == ParameterEncoding::Format::kNf4;
}

bool is_taken_weight(const Parameter& weight) {
  const EncodedParameter& encoded = *weight.encoded;
  const std::int64_t columns = weight.value.size(1);
  return weight.value.dim() == 2 && weight.value.size(0) % kDepthStep == 0 &&
         columns % kWordElements == 0 &&
         encoded.ranges.size() <= std::size_t{Nf4Weight::kMaxRanges} &&
         starts_at_vector(encoded.bytes) &&
         std::ranges::all_of(encoded.ranges, [&](const ElementRange& range) {
           return range.begin % columns == 0 && range.numel % columns == 0;
         });
}

Nf4Weight launch_weight(const Parameter& parameter) {
  Nf4Weight weight;
  weight.groups = parameter.encoded->bytes.const_data_ptr<std::uint8_t>();
  weight.num_rows = static_cast<int>(parameter.value.size(0));
  weight.num_columns = static_cast<int>(parameter.value.size(1));
  int first_group = 0;
  for (const ElementRange& range : parameter.encoded->ranges) {
    weight.first_row[weight.num_ranges] = static_cast<int>(range.begin / weight.num_columns);
    weight.first_group[weight.num_ranges] = first_group;
    first_group += static_cast<int>(num_nf4_groups(range.numel));
    ++weight.num_ranges;
  }
  weight.first_row[weight.num_ranges] = weight.num_rows;
  return weight;
}

Nf4GemmArguments gemm_arguments(const at::Tensor& left, const Parameter& weight,
                                const at::Tensor& addend, const at::Tensor& out) {
  Nf4GemmArguments a;
  a.weight = launch_weight(weight);
  a.left = left.const_data_ptr();
  a.left_stride = left.stride(0);
  a.out = out.data_ptr();
  a.out_stride = out.stride(0);
  a.num_rows = static_cast<int>(left.size(0));
  if (addend.defined()) {
    a.addend = addend.const_data_ptr();
    a.addend_stride = addend.stride(0);
  }
  return a;
}

}  // namespace

bool nf4_gemm_takes(const at::Tensor& left, const Parameter& weight, const Parameter* bias,
                    const at::Tensor& addend) {
  return is_in_nf4(weight) && is_taken_matrix(left) && left.size(0) > 0 &&
         left.size(0) <= kMaxRows && is_taken_weight(weight) &&
         (bias == nullptr || starts_at_vector(bias->value)) &&
         (!addend.defined() || is_taken_matrix(addend)) && has_hopper_kernels();
}

at::Tensor nf4_gemm_forward_cuda(const at::Tensor& x, const Parameter& weight,
                                 const Parameter* bias, const at::Tensor& addend) {
  const c10::cuda::CUDAGuard guard(x.device());
  at::Tensor out = at::empty({x.size(0), weight.value.size(0)}, x.options());
  Nf4GemmArguments a = gemm_arguments(x, weight, addend, out);
  if (bias != nullptr) a.bias = bias->value.const_data_ptr();
  launch_nf4_gemm_forward(a, current_stream(out));
  return out;
}

at::Tensor nf4_gemm_backward_cuda(const at::Tensor& grad_output, const Parameter& weight,
                                  const at::Tensor& addend) {
  const c10::cuda::CUDAGuard guard(grad_output.device());
  at::Tensor out = at::empty({grad_output.size(0), weight.value.size(1)}, grad_output.options());
  launch_nf4_gemm_backward(gemm_arguments(grad_output, weight, addend, out), current_stream(out));
  return out;
}

}  // namespace packtrain
