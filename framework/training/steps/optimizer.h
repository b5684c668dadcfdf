// The end of an optimizer step: global norm, clipping, AdamW on the flat shard. Nothing here waits
// for the device: loss and norm are read from a StepOutcome when they have arrived.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "framework/config/config.h"
#include "framework/device/device.h"
#include "models/ops/adamw/adamw.h"
#include "models/ops/gradient_norm/gradient_norm.h"
#include "parallel/sharding/sharded_model.h"

namespace packtrain {

// What ranks ask of each other, at the end of a step.
struct StepRequests {
  bool stop = false;
  bool save = false;  // one rank only
  // This rank's memory ran out: its loss is to be NaN, so that no rank applies the update.
  bool out_of_memory = false;
};

// What the device says of a step, over all ranks. read() waits for it.
class StepOutcome {
 public:
  // `num_details`: how many numbers Optimizer::step is given besides the loss.
  explicit StepOutcome(Device& device, std::int64_t num_details = 0);

  struct Values {
    double loss = 0;
    double grad_norm = 0;   // before clipping
    bool applied = true;    // false: loss or norm was refused, nothing was written
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
  // `seed`: of the rounding of bfloat16 moments.
  Optimizer(ShardedModel& model, const OptimizerSection& options, std::uint64_t seed);

  // One update from the gradients that ShardedModel::train left. `loss`: this rank's; `number`:
  // optimizer steps taken with this one, from 1. Collective. A step whose loss or norm is not
  // finite, or above its bound, writes nothing, on any rank. `details`: float32 [n] to be summed
  // over the ranks with the loss, or undefined for none.
  void step(const at::Tensor& loss, double learning_rate, std::int64_t number,
            const StepRequests& requests, StepOutcome& outcome, const at::Tensor& details = {},
            const RefusalBounds& bounds = {});

 private:
  // A part of the flat state that one launch updates; ranges count from its begin.
  struct Part {
    int unit = 0;  // the first, where there are several
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
