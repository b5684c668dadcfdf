// The router of Phi-3.5-MoE, SparseMixer v2 (Liu et al., arXiv 2409.12136), for two experts a row.
// For logits z [T, E], with m the largest z:
//    an expert competes unless (m - z) / max(|z|, m) > 2 epsilon
//    p = softmax of z over those that compete;   the expert of m is chosen, and w = its p
// The second expert is chosen in the same way, with its own p, among all but the first. The choice
// is that of evaluation: training by its authors draws an expert from p. Where this is the expert
// of m, its weight and its gradient are these. Backward, added for both choices:
//    dz = dw w (1 at the chosen, else 0, minus p)
// All are float32. Nothing waits for the device.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/ops/experts/routing.h"

namespace packtrain {

Routing choose_by_sparse_mixer(const at::Tensor& logits, const RoutingOptions& options);
// Returns dz [T, E].
at::Tensor sparse_mixer_backward(const at::Tensor& grad_weights, const Routing& routing,
                                 const RoutingOptions& options);

}  // namespace packtrain
