#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include "framework/core/error.h"
#include "models/ops/cuda/column_sums.h"
#include "models/ops/cuda/current_stream.h"
#include "models/ops/cuda/gradient_target.h"
#include "models/ops/delta_rule/boundaries_cuda.h"
#include "models/ops/delta_rule/causal_conv.h"
#include "models/ops/delta_rule/causal_conv_cuda.h"
#include "models/ops/delta_rule/causal_conv_launch.h"

namespace packtrain {
namespace {

constexpr const char* kConvName = "causal convolution";

// The kernel takes rows with gaps between them.
at::Tensor conv_rows(const at::Tensor& x) {
  return x.stride(1) == 1 ? x : x.contiguous();
}

void add_partials(const at::Tensor& partials, const Parameter& parameter, const at::Tensor& x) {
  ColumnSumsArguments sums;
  sums.partials = partials.const_data_ptr<float>();
  sums.num_partials = partials.size(0);
  sums.num_columns = partials.size(1);
  sums.targets[0] = gradient_target(&parameter, kConvName);
  launch_column_sums(sums, current_stream(x));
}

}  // namespace

at::Tensor conv_boundaries(const CausalConvOptions& options, at::Device device) {
  if (options.device_boundaries.defined()) return options.device_boundaries;
  return to_device_ints(options.boundaries, device, kConvName);
}

CausalConvArguments conv_arguments(const at::Tensor& x, const CausalConvParameters& parameters,
                                   const CausalConvOptions& options, const at::Tensor& boundaries) {
  const at::Tensor& weight = parameters.weight.value;
  const bool has_dtype =
      weight.scalar_type() == x.scalar_type() &&
      (parameters.bias == nullptr || parameters.bias->value.scalar_type() == x.scalar_type());
  if (!has_dtype || !weight.is_contiguous() || weight.size(1) > kCausalConvMaxWidth) {
    throw Error(
        ErrorCategory::kInternal,
        fmt::format("causal convolution: got {} weights a channel of {} for x of {}, wanted "
                    "up to {} without gaps, and parameters of x's dtype",
                    weight.size(1), c10::toString(weight.scalar_type()),
                    c10::toString(x.scalar_type()), kCausalConvMaxWidth));
  }
  CausalConvArguments arguments;
  arguments.x = x.const_data_ptr();
  arguments.x_stride = x.stride(0);
  arguments.weight = weight.const_data_ptr();
  if (parameters.bias != nullptr) arguments.bias = parameters.bias->value.const_data_ptr();
  arguments.boundaries = boundaries.const_data_ptr<std::int32_t>();
  arguments.num_sequences = boundaries.size(0) - 1;
  arguments.num_rows = x.size(0);
  arguments.num_channels = x.size(1);
  arguments.width = static_cast<int>(weight.size(1));
  arguments.silu = options.silu;
  arguments.dtype = float_type_of(x, kConvName);
  return arguments;
}

ConvPartials::ConvPartials(const at::Tensor& x, const CausalConvParameters& parameters,
                           CausalConvArguments& arguments) {
  const std::int64_t num_blocks = (arguments.num_rows + kCausalConvRows - 1) / kCausalConvRows;
  const auto floats = x.options().dtype(at::kFloat);
  weight_ = at::empty({num_blocks, arguments.num_channels * arguments.width}, floats);
  arguments.weight_partials = weight_.data_ptr<float>();
  if (parameters.bias == nullptr) return;
  bias_ = at::empty({num_blocks, arguments.num_channels}, floats);
  arguments.bias_partials = bias_.data_ptr<float>();
}

void ConvPartials::write(const at::Tensor& x, const CausalConvParameters& parameters) const {
  add_partials(weight_, parameters.weight, x);
  if (parameters.bias != nullptr) add_partials(bias_, *parameters.bias, x);
}

at::Tensor causal_conv_forward_cuda(const at::Tensor& x, const CausalConvParameters& parameters,
                                    const CausalConvOptions& options) {
  const at::Tensor in = conv_rows(x);
  const at::Tensor boundaries = conv_boundaries(options, x.device());
  CausalConvArguments arguments = conv_arguments(in, parameters, options, boundaries);
  at::Tensor y = at::empty(x.sizes(), x.options());
  arguments.output = y.data_ptr();
  arguments.output_stride = arguments.num_channels;
  launch_causal_conv(arguments, current_stream(x));
  return y;
}

void causal_conv_backward_cuda(const at::Tensor& grad_output, const at::Tensor& x,
                               const CausalConvParameters& parameters,
                               const CausalConvOptions& options, const at::Tensor& grad_x) {
  const at::Tensor in = conv_rows(x);
  const at::Tensor grad = grad_output.contiguous();
  const at::Tensor boundaries = conv_boundaries(options, x.device());
  CausalConvArguments arguments = conv_arguments(in, parameters, options, boundaries);
  const ConvPartials partials(x, parameters, arguments);
  const at::Tensor dx = conv_rows(grad_x);
  arguments.grad_output = grad.const_data_ptr();
  arguments.output = dx.data_ptr();
  arguments.output_stride = dx.stride(0);
  launch_causal_conv(arguments, current_stream(x));
  partials.write(x, parameters);
  if (!dx.is_same(grad_x)) grad_x.copy_(dx);
}

}  // namespace packtrain
