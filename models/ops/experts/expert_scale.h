// Trained factors multiply the weights of experts (Gemma 4). A routing (routing.h) has weights w,
// and e is the expert experts[t, i]. Then
//    y[t, i] = w[t, i] s[e]
//    dw[t, i] = g[t, i] s[e];   ds[e] = sum of g w over the choices of e
// w, g and y are float32 [T, k], experts int32 [T, k] (distinct in a row), and s [E] is float32 or
// bfloat16. The sum of each expert is in a fixed order, with T E numbers in between. Nothing waits
// for the device.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/block/block.h"

namespace packtrain {

at::Tensor scale_by_expert(const at::Tensor& weights, const at::Tensor& experts,
                           const Parameter& scale);
// Returns dw, and writes ds.
at::Tensor scale_by_expert_backward(const at::Tensor& grad, const at::Tensor& weights,
                                    const at::Tensor& experts, const Parameter& scale);

}  // namespace packtrain
