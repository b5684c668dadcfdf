// The router of DeepSeek-V3 and GLM-4.5 (Liu et al., arXiv 2412.19437, 2.1.2). For logits z [T, E]:
//    s = sigmoid(z);   c = s + b;   the k largest c are chosen, and w = a s of the chosen
//    normalized: s of the chosen is divided by its sum + e before
// b [E] has no gradient. Without b and groups the k largest z are chosen, as in Llama 4. The
// constant e is 1e-20 in DeepSeek-V3. With G groups of E / G neighbouring experts, a group's score
// is the sum of its two largest c. The groups with the largest scores take part in the choice. Of
// equal scores the lowest is chosen. Backward: dz = s (1 - s) ds. All are float32. Nothing waits
// for the device.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/ops/experts/routing.h"

namespace packtrain {

// `choice_bias` may be null: b = 0. Groups have two experts or more, and those of a row have at
// least k.
Routing choose_by_sigmoid(const at::Tensor& logits, const Parameter* choice_bias,
                          const RoutingOptions& options);
// Returns dz [T, E].
at::Tensor sigmoid_routing_backward(const at::Tensor& grad_weights, const Routing& routing,
                                    const RoutingOptions& options);

}  // namespace packtrain
