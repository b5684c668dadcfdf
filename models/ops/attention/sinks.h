// Attention sinks (gpt-oss; Xiao et al., arXiv 2309.17453): for each head a learned logit that
// takes part in the softmax and has no value. Kernels without sinks can be used. From their output
// o and logsumexp l,
//    l' = log(e^l + e^sink),  o' = o e^(l - l')
// are the values with the sink. Backward with o' and l' gives the exact gradients, because it
// computes p = e^(s - l') and sum(do o'). The sink's own gradient is d sink = -sum_t e^(sink - l')
// do o'.
#pragma once

#include <ATen/core/Tensor.h>

namespace packtrain {

// Includes the sinks [H] in y [L, H, D] and logsumexp float32 [L, H], in place, with any strides.
void add_sinks_(const at::Tensor& y, const at::Tensor& logsumexp, const at::Tensor& sinks);

// Gradient of the sinks, float32 [H], from y and logsumexp with sinks. Sums in a fixed order.
at::Tensor sinks_gradient(const at::Tensor& grad_output, const at::Tensor& y,
                          const at::Tensor& logsumexp, const at::Tensor& sinks);

}  // namespace packtrain
