// The softmax router of ERNIE 4.5 (Baidu, "ERNIE 4.5 Technical Report", 2025). For logits z [T, E]:
//    p = softmax(z);   c = p + b;   the k largest c are chosen, and w = a p of the chosen
//    normalized: p of the chosen is divided by max(s, e) before, where s is their sum
// b [E] has no gradient. Of equal c the lowest expert is chosen. Backward, for the chosen:
//    dp = (a dw - sum(a dw p) [s > e] / max(s, e)) / max(s, e)
// Then dz = p (dp - sum p dp) over all experts. All are float32. Nothing waits for the device.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/ops/experts/routing.h"

namespace packtrain {

// The router has no groups.
Routing choose_by_biased_softmax(const at::Tensor& logits, const Parameter& choice_bias,
                                 const RoutingOptions& options);
// Returns dz [T, E]. `grad_probabilities` (float32 [T, E]) may be undefined.
at::Tensor biased_routing_backward(const at::Tensor& grad_weights,
                                   const at::Tensor& grad_probabilities, const Routing& routing,
                                   const RoutingOptions& options);

}  // namespace packtrain
