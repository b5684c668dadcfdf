// Chooses the experts of each row and their weights (Shazeer et al., arXiv 1701.06538):
//    z = x W^T + b;   p = softmax(z);   w = p of the chosen, the k largest z
//    normalized: w divided by their sum (= softmax of the chosen z)
// A factor may multiply w, and another one z. With groups of experts each row first chooses groups,
// by the largest z of each (expert_groups.h). Its experts are of these groups. p stays that of all
// experts. With a bias of the choice the k largest p + bias are chosen (biased_router.h). A sigmoid
// router (Liu et al., arXiv 2412.19437) and a sparse mixer (Liu et al., arXiv 2409.12136) have
// other weights: sigmoid_router.h, sparse_mixer.h. Of equal z the lowest expert comes first. x [T,
// H], W [E, H], b [E] are float32 or bfloat16. Sums, z, p and w are float32.
// Backward:
//    dz = p (dp - sum p dp) over all experts; normalized: over the chosen ones
// A gradient of p, which an auxiliary loss has, adds the same term over all experts. Deterministic.
// Does not wait for the device. 2 T E H operations forward, 4 backward.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "models/block/block.h"
#include "models/ops/experts/router_kind.h"

namespace packtrain {

struct RoutingOptions {
  std::int64_t experts_per_row = 1;  // k
  bool normalize = false;
  bool keep_probabilities = false;  // although w and its gradient do not read them
  RouterKind kind = RouterKind::kSoftmax;
  bool choice_bias = false;     // the router has one
  std::int64_t num_groups = 1;  // kSoftmax, kSigmoid, as the next two: ExpertsConfig has them
  std::int64_t groups_per_row = 1;
  double weight_multiplier = 1.0;
  double logit_multiplier = 1.0;  // of z, bias included
  double sum_epsilon = 1e-20;     // with normalize: of kSigmoid, and of a bias
  double mixer_epsilon = 0.01;    // kSparseMixer

  bool reads_probabilities() const {
    if (kind == RouterKind::kSoftmax) return !normalize || keep_probabilities || choice_bias;
    return kind == RouterKind::kSigmoid || keep_probabilities;
  }
  bool reads_logits() const { return kind == RouterKind::kSparseMixer; }
};

struct Routing {
  at::Tensor weights;        // float32 [T, k]
  at::Tensor experts;        // int32 [T, k], in the order in which they were chosen
  at::Tensor probabilities;  // float32 [T, E], of a sigmoid router sigmoid(z); or undefined
  at::Tensor logits;         // z, float32 [T, E]; undefined when not needed
};

// The parameters of a router. Those that it does not have are null.
struct RouterWeights {
  const Parameter& weight;
  const Parameter* bias = nullptr;
  const Parameter* choice_bias = nullptr;  // float32 [E]: has no gradient
};

Routing route(const at::Tensor& x, const RouterWeights& router, const RoutingOptions& options,
              const GemmTiming& timing);

// Returns the gradient of x W^T + b, float32 [T, E]. `grad_probabilities` (float32 [T, E]) may be
// undefined.
at::Tensor routing_backward(const at::Tensor& grad_weights, const at::Tensor& grad_probabilities,
                            const Routing& routing, std::int64_t num_experts,
                            const RoutingOptions& options);

// On CUDA tensors. The functions above call these; no_cuda.cpp has them in a build without CUDA.
Routing choose_experts_cuda(const at::Tensor& logits, const RoutingOptions& options);
at::Tensor routing_backward_cuda(const at::Tensor& grad_weights,
                                 const at::Tensor& grad_probabilities, const Routing& routing,
                                 std::int64_t num_experts, const RoutingOptions& options);

}  // namespace packtrain
