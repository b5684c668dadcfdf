// The gated short convolution of LFM2. A projection [T, 3 C] has the columns b, c and x:
//    y = c * conv(b * x)
// where conv is the causal convolution of delta_rule/causal_conv.h without an activation. It never
// reads another sequence. y is [T, C], float32 or bfloat16, as the projection. Parameters,
// sequences and errors are those of causal_conv.h. Products round to the dtype, as those of
// transformers. Deterministic. Backward computes the convolution again. On a GPU one
// kernel has all: forward must move 4 T C elements, backward 7 T C.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/ops/delta_rule/causal_conv.h"

namespace packtrain {

// `options.silu` must be false.
at::Tensor short_conv_forward(const at::Tensor& projection, const CausalConvParameters& parameters,
                              const CausalConvOptions& options);

// Writes the gradients of the parameters and returns that of the projection. Where `output` is
// defined, [T, C], it receives y.
at::Tensor short_conv_backward(const at::Tensor& grad_output, const at::Tensor& projection,
                               const CausalConvParameters& parameters,
                               const CausalConvOptions& options, const at::Tensor& output = {});

// The columns of a projection, or of its gradient.
struct ShortConvColumns {
  at::Tensor b;
  at::Tensor c;
  at::Tensor x;
};
ShortConvColumns short_conv_columns(const at::Tensor& projection);

// The same on CUDA tensors, whose shapes fit; `output` has no gaps. Throws Error(kInternal) for
// other dtypes or widths. no_cuda_mixers.cpp has them in a build without CUDA.
at::Tensor short_conv_forward_cuda(const at::Tensor& projection,
                                   const CausalConvParameters& parameters,
                                   const CausalConvOptions& options);
at::Tensor short_conv_backward_cuda(const at::Tensor& grad_output, const at::Tensor& projection,
                                    const CausalConvParameters& parameters,
                                    const CausalConvOptions& options, const at::Tensor& output);

}  // namespace packtrain
