// The end of an optimizer step: global norm, clipping, AdamW on the flat shard. Nothing here waits
// for the device. A StepOutcome (step_outcome.h) reads loss and norm when they have arrived.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "framework/config/config.h"
#include "parallel/sharding/sharded_model.h"
#include "training/optimizers/adamw.h"
#include "training/steps/step_outcome.h"

namespace packtrain {

class Optimizer {
 public:
  // `seed`: for the stochastic rounding of bfloat16 moments.
  Optimizer(ShardedModel& model, const OptimizerSection& options, std::uint64_t seed);

  // Applies one update from the gradients of ShardedModel::train. `loss`: this rank's. `number`:
  // optimizer steps including this one, from 1. Collective. A step whose loss or norm is not finite
  // or exceeds its bound writes nothing on any rank. `details`: float32 [n], summed over the ranks
  // with the loss; undefined for none.
  void step(const at::Tensor& loss, double learning_rate, std::int64_t number,
            const StepRequests& requests, StepOutcome& outcome, const at::Tensor& details = {},
            const RefusalBounds& bounds = {});

 private:
  // A part of the flat state that one launch updates. Ranges are relative to its begin.
  struct Part {
    int unit = 0;  // the first one of several
    std::int64_t begin = 0;
    std::int64_t numel = 0;
    std::vector<AdamWRange> ranges = {};
  };

  void update(double learning_rate, std::int64_t number, const StepScalars& scalars);

  ShardedModel& model_;
  OptimizerSection options_;
  std::uint64_t seed_;
  std::vector<Part> parts_;
};

}  // namespace packtrain
