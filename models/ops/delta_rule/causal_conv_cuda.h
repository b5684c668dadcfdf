// Arguments, boundaries and sums that the callers of convolution kernels share.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/ops/delta_rule/causal_conv.h"
#include "models/ops/delta_rule/causal_conv_launch.h"

namespace packtrain {

// The options' boundaries on the device.
at::Tensor conv_boundaries(const CausalConvOptions& options, at::Device device);

// All but the output and what backward reads and writes. Rows of x [T, C] may have gaps. Throws
// Error(kInternal) for other dtypes or widths.
CausalConvArguments conv_arguments(const at::Tensor& x, const CausalConvParameters& parameters,
                                   const CausalConvOptions& options, const at::Tensor& boundaries);

// Sums of the parameters' gradients, of each block of threads.
class ConvPartials {
 public:
  // Sets the partials of `arguments`, whose sizes are set.
  ConvPartials(const at::Tensor& x, const CausalConvParameters& parameters,
               CausalConvArguments& arguments);
  // Writes the gradients of the parameters, after the kernel.
  void write(const at::Tensor& x, const CausalConvParameters& parameters) const;

 private:
  at::Tensor weight_;
  at::Tensor bias_;
};

}  // namespace packtrain
