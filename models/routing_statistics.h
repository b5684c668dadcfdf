// How a micro-batch's rows were spread over the experts, by layer and, where there is one, for the
// load-balancing loss by example: that of Fedus et al. (arXiv 2101.03961, equations 4 to 6) over
// all layers jointly, as transformers' load_balancing_loss_func. With L layers that have experts, E
// experts, and of an example with T rows
//   f_e = (choices of e by its rows, in all layers) / (L T),   P_e = (sum of p_e) / (L T)
// its loss is E sum_e f_e P_e, and weighs what its supervised rows weigh together: so that the
// losses of examples, micro-batches and ranks add up like the tokens' losses, whatever lies beside
// an example. f has no gradient.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "models/decoder_config.h"
#include "models/ops/experts/routing.h"

namespace packtrain {

struct DeviceBatch;

// Lies with the batch (DeviceBatch::routing). P examples, pads left out.
struct RoutingStatistics {
  at::Tensor counts;         // float32 [L, P, E] choices; [L, 1, E] without auxiliary loss
  at::Tensor probabilities;  // float32 [L, P, E] sums of p; undefined without auxiliary loss
  at::Tensor loss;           // float32 [] once the forward is over: weighted, without coefficient
  at::Tensor real_rows;      // float32 [T, 1]: 1, and 0 of pads; undefined: there are none
  at::Tensor slopes;         // float32 [P, E]: d (coefficient * loss) / d p of one row, any layer
};

// A layer writes what is its own, forward and when it is made again: the same once more.
// `all_rows`: the routing is of all rows, or of the supervised ones alone.
void write_routing(const DeviceBatch& batch, const Routing& routing, const ExpertsConfig& config,
                   std::int64_t layer, std::int64_t num_layers, bool all_rows);

// When all layers have written: the loss and its slopes.
void finish_routing(const DeviceBatch& batch, const ExpertsConfig& config);

// d (coefficient * loss) / d p, float32 [T, E]; undefined where there is none.
at::Tensor auxiliary_gradient(const DeviceBatch& batch);

}  // namespace packtrain
