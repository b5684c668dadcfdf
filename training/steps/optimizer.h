// The end of an optimizer step: global norm, clipping, AdamW on the flat shard. Nothing here waits
// for the device. A StepOutcome reads loss and norm when they have arrived.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "framework/config/config.h"
#include "framework/device/device.h"
#include "models/ops/gradient_norm/gradient_norm.h"
#include "parallel/sharding/sharded_model.h"
#include "training/optimizers/adamw.h"

namespace packtrain {

// Requests that ranks share at the end of a step.
struct StepRequests {
  bool stop = false;
  bool save = false;  // one rank only
  // Out of memory on this rank. Its loss is set to NaN so that no rank updates.
  bool out_of_memory = false;
};

// Outcome of a step over all ranks, as the device reports it. read() waits for it.
class StepOutcome {
 public:
  // `num_details`: length of the `details` that Optimizer::step gets.
  explicit StepOutcome(Device& device, std::int64_t num_details = 0);

  struct Values {
    double loss = 0;
    double grad_norm = 0;   // before clipping
    bool applied = true;    // false: the step was skipped, nothing was written
    StepRequests requests;  // of any rank
    std::int64_t num_ranks_out_of_memory = 0;
    std::vector<double> details;
  };
  Values read();

 private:
  friend class Optimizer;
  HostBuffer memory_;
  at::Tensor host_;  // float32 [6 + details], view of memory_
  std::unique_ptr<Event> arrived_;
};

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
