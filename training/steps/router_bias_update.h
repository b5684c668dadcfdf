// Balances experts without an auxiliary loss, where routers choose by scores with a bias of each
// expert (ExpertsConfig::choice_bias). In a step the biases of experts with more tokens than the
// mean fall, and those of the others rise. Wang et al., arXiv 2408.15664, algorithm 1:
//    b_e += rate * sign(mean of the c - c_e),   c_e: tokens of expert e in the step, of all ranks
// Biases are weights without a gradient. So they are in checkpoints and exports, and the same on
// all ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "models/layers/decoder_config.h"
#include "parallel/sharding/sharded_model.h"

namespace packtrain {

// Throws Error(kConfig) where `rate` (optimizer.router_bias_update_rate) is not 0 and the model has
// no such biases, or trains an adapter, whose checkpoints do not have them.
void check_router_bias_rate(double rate, const DecoderConfig& decoder);

class RouterBiasUpdate {
 public:
  // `rate`: above 0, as check_router_bias_rate() accepts. The model must outlive the object.
  RouterBiasUpdate(ShardedModel& model, const DecoderConfig& decoder, double rate);

  // `counts`: float32 [layers with experts * experts], the tokens of the step over all ranks, on
  // the device. `skipped`: float32 [], 1 where the step is skipped; nothing is then written. Call
  // it on the compute stream, before the update of the optimizer.
  void run(const at::Tensor& counts, const at::Tensor& skipped);

 private:
  // The elements of one layer's biases that this rank owns.
  struct OwnedBiases {
    at::Tensor values;              // float32 [n], a view of the weights
    std::int64_t begin = 0;         // the first one's expert
    std::int64_t expert_layer = 0;  // among the layers with experts
    int unit = 0;
  };

  ShardedModel& model_;
  std::int64_t num_experts_;
  double rate_;
  std::vector<OwnedBiases> owned_;
};

}  // namespace packtrain
