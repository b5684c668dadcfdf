// Which experts a row goes to, and what each weighs (Shazeer et al., arXiv 1701.06538):
//   z = x W^T + b;   p = softmax(z);   chosen: the k largest z, of equal ones the lowest expert
//   first w = p of the chosen, or, normalized, p of the chosen over their sum (= softmax of the
//   chosen z)
// x [T, H], W [E, H], b [E] float32 or bfloat16; sums, z, p and w float32. Backward:
//   dz = p (dp - sum p dp), of all experts or, normalized, of the chosen, plus the same of a
//   gradient of p, which an auxiliary loss has
// Deterministic; nothing waits for the device. 2 T E H operations forward, 4 backward.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "models/block.h"

namespace packtrain {

struct RoutingOptions {
  std::int64_t experts_per_row = 1;  // k
  bool normalize = false;
  bool keep_probabilities = false;  // although neither w nor its gradient reads them

  bool reads_probabilities() const { return !normalize || keep_probabilities; }
};

struct Routing {
  at::Tensor weights;        // float32 [T, k]
  at::Tensor experts;        // int32 [T, k], in the order of the weights: descending
  at::Tensor probabilities;  // float32 [T, E]; undefined where nothing reads them
};

// `bias` may be null.
Routing route(const at::Tensor& x, const Parameter& weight, const Parameter* bias,
              const RoutingOptions& options);

// d z [T, E], float32. `grad_probabilities` (float32 [T, E]) may be undefined.
at::Tensor routing_backward(const at::Tensor& grad_weights, const at::Tensor& grad_probabilities,
                            const Routing& routing, std::int64_t num_experts,
                            const RoutingOptions& options);

}  // namespace packtrain
