// The end of an optimizer step: global norm, clipping, the update of the flat shard. Nothing here
// waits for the device. A StepOutcome (step_outcome.h) reads loss and norm when they have arrived.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "framework/config/config.h"
#include "parallel/sharding/sharded_model.h"
#include "training/optimizers/optimizer.h"
#include "training/steps/step_outcome.h"

namespace packtrain {

class OptimizerStep {
 public:
  // `seed`: for the stochastic rounding of bfloat16 moments.
  OptimizerStep(ShardedModel& model, const OptimizerSection& options, std::uint64_t seed);

  // Applies one update from the gradients of ShardedModel::train. `loss`: this rank's. `number`:
  // optimizer steps including this one, from 1. Collective. A step whose loss or norm is not finite
  // or exceeds its bound writes nothing on any rank. `details`: float32 [n], summed over the ranks
  // with the loss; undefined for none.
  void run(const at::Tensor& loss, double learning_rate, std::int64_t number,
           const StepRequests& requests, StepOutcome& outcome, const at::Tensor& details = {},
           const RefusalBounds& bounds = {});

 private:
  // What one call of Optimizer::update changes. Ranges are relative to its begin.
  struct Part {
    int unit = 0;  // the first one of several
    std::int64_t begin = 0;
    std::int64_t numel = 0;
    std::size_t weight_buffer = 0;
    std::int64_t weight_begin = 0;
    std::vector<ShardRange> ranges = {};
    ShardPart tensors = {};  // views; the gradient's is set at each step
  };

  bool extends(const Part& part, const OptimizerRange& range) const;
  void add(const OptimizerRange& range);
  void make_views(Part& part) const;
  void update(double learning_rate, std::int64_t number, const StepScalars& scalars);

  ShardedModel& model_;
  std::unique_ptr<Optimizer> optimizer_;
  double max_grad_norm_;
  std::vector<Part> parts_;
};

}  // namespace packtrain
