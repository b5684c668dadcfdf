// batch.cost: measured. Times a few real micro-batches on every rank before training.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/data/token_store.h"
#include "framework/device/device.h"
#include "framework/training/plan/run_plan.h"
#include "parallel/sharding/sharded_model.h"
#include "parallel/world.h"
#include "samplers/plan.h"

namespace packtrain {

struct MeasuredCost {
  CostModel cost;              // of the mean rank, in seconds
  std::vector<double> speeds;  // [ranks]
};

// Micro-batches of different make-up, of the examples of the steps from `first_step` on: few long
// and many short ones, full and half full, and a mixture. Full is a rank's fair share of a step, or
// the budget in force where that is less; each holds at least one sequence, and sequences whole.
std::vector<MicroBatch> sample_micro_batches(const RunPlan& plan, std::int64_t first_step);

// Forward and backward of these through the model, all ranks the same one at the same time, the
// gradients thrown away: weights, optimizer state and random streams stay as they are. A rank's
// time is from an empty compute stream to an empty one, less what the stream stood in waits for
// communication. Each micro-batch once to warm up, then up to five times, as long as all takes no
// more than 2 s or 1 % of the run, whichever is more (but twice at least). Every rank computes the
// same result from the timings of all. Collective; logs what was found in one line.
MeasuredCost measure_cost(const RunPlan& plan, const TokenStore& store, std::int64_t first_step,
                          ShardedModel& model, const Device& device, World& world);

}  // namespace packtrain
