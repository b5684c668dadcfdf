// Settings of layers with a mixture of experts.
#pragma once

#include <cstdint>

#include "models/ops/experts/router_kind.h"

namespace packtrain {

// Mixture of experts instead of an MLP, or next to it: the same activation, top-k routing, no
// dropped token.
struct ExpertsConfig {
  std::int64_t num_experts = 0;  // 0: no layer has experts
  std::int64_t experts_per_token = 0;
  std::int64_t intermediate_size = 0;  // of one expert
  bool softmax_first = true;       // over all experts, before the choice; false: over the chosen
  bool normalize_weights = false;  // with softmax_first: weights of the chosen experts sum to 1
  bool router_bias = false;
  bool bias = false;                          // of the projections of experts
  std::int64_t shared_intermediate_size = 0;  // width of an additional MLP for all tokens; 0: none
  bool shared_bias = false;                   // of that MLP's projections
  bool shared_gate = false;                   // scales that MLP's output by sigmoid(x w)
  double auxiliary_loss = 0;                  // coefficient of the load-balancing loss
  RouterKind router = RouterKind::kSoftmax;   // the others: models/ops/experts/routing.h
  bool choice_bias = false;    // kSoftmax, kSigmoid: of the choice alone, without a gradient
  double sum_epsilon = 1e-20;  // with normalize_weights: routing.h has its use
  // kSoftmax and kSigmoid: experts in groups, of which each token chooses some.
  std::int64_t num_groups = 1;
  std::int64_t groups_per_token = 1;
  double weight_multiplier = 1.0;  // kSoftmax, kSigmoid: factor of the weights
  bool weighted_inputs = false;    // weights multiply inputs of experts, which then have no bias
  double mixer_epsilon = 0.01;     // kSparseMixer: half the distance at which experts compete
  double logit_multiplier = 1.0;   // factor of the router's logits
  bool expert_scale = false;       // a trained factor of the weights of each expert
  // The layer has its MLP too. Both read the same rows and have norms of their own, before and
  // after. Their sum is the output of the branch.
  bool next_to_mlp = false;
  bool router_norm = false;  // with next_to_mlp: the router reads the rows under a third norm

  bool operator==(const ExpertsConfig&) const = default;
};

}  // namespace packtrain
