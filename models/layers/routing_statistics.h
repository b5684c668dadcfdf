// Spread of a micro-batch's rows over experts, by layer. With an auxiliary loss it is also kept by
// example. The loss is that of Fedus et al. (arXiv 2101.03961, equations 4 to 6) over all layers
// together, as in transformers' load_balancing_loss_func. For L layers with experts, E experts, and
// an example with T rows:
//    f_e = (choices of e by its rows, in all layers) / (L T),   P_e = (sum of p_e) / (L T)
// The example's loss is E sum_e f_e P_e. Its weight is the sum of the weights of its supervised
// rows. The losses of examples, micro-batches and ranks then add up like those of tokens. They do
// not depend on how examples are packed. f has no gradient.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "models/layers/decoder_config.h"
#include "models/ops/experts/routing.h"

namespace packtrain {

struct DeviceBatch;

// Stored in the batch (BatchState::routing). P examples, without pads.
struct RoutingStatistics {
  at::Tensor counts;         // float32 [L, P, E] choices; [L, 1, E] without auxiliary loss
  at::Tensor probabilities;  // float32 [L, P, E] sums of p; undefined without auxiliary loss
  at::Tensor loss;           // float32 [] after forward: weighted, without coefficient
  at::Tensor real_rows;      // float32 [T, 1]: 1, and 0 for pads; undefined: no pads
  at::Tensor slopes;         // float32 [P, E]: d (coefficient * loss) / d p of one row, any layer
};

// A layer writes its own part, in forward and in a recomputation, which writes the same values.
// `all_rows`: the routing is of all rows, else of the supervised ones.
void write_routing(DeviceBatch& batch, const Routing& routing, const ExpertsConfig& config,
                   std::int64_t layer, std::int64_t num_layers, bool all_rows);

// Computes the loss and its slopes after all layers have written.
void finish_routing(DeviceBatch& batch, const ExpertsConfig& config);

// d (coefficient * loss) / dp, float32 [T, E]; undefined if there is none.
at::Tensor auxiliary_gradient(const DeviceBatch& batch);

}  // namespace packtrain
