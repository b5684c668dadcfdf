// Attention sinks (gpt-oss; Xiao et al., arXiv 2309.17453): a learned logit a head that takes part
// in the softmax and has no value. No kernel needs to know of them: of its output o and the
// logarithms l of its softmax's sums,
//   l' = log(e^l + e^sink),  o' = o e^(l - l')
// are those with the sink, and its backward, given o' and l', finds the exact gradients, since it
// works with p = e^(s - l') and sum(do o'). Of the sink itself: d sink = -sum_t e^(sink - l') do
// o'.
#pragma once

#include <ATen/core/Tensor.h>

namespace packtrain {

// Puts the sinks [H] into y [L, H, D] and logsumexp float32 [L, H], in place; any strides.
void add_sinks_(const at::Tensor& y, const at::Tensor& logsumexp, const at::Tensor& sinks);

// Their gradient, float32 [H], of y and logsumexp with sinks; sums in a fixed order.
at::Tensor sinks_gradient(const at::Tensor& grad_output, const at::Tensor& y,
                          const at::Tensor& logsumexp, const at::Tensor& sinks);

}  // namespace packtrain
