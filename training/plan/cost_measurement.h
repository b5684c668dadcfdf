// batch.cost: measured. Times a few real micro-batches on every rank before training.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/data/token_store.h"
#include "framework/device/device.h"
#include "parallel/communicators/world.h"
#include "parallel/sharding/sharded_model.h"
#include "samplers/plan.h"
#include "training/plan/run_plan.h"

namespace packtrain {

struct MeasuredCost {
  CostModel cost;              // of the mean rank, in seconds
  std::vector<double> speeds;  // [ranks]
};

// Micro-batches of different composition: few long sequences, many short ones, and a mixture, full
// and half full. Their examples come from the steps from `first_step` on. A full one holds a rank's
// equal share of a step, or the budget in force if that is less. Each holds at least one sequence.
// No sequence is cut.
std::vector<MicroBatch> sample_micro_batches(const RunPlan& plan, std::int64_t first_step);

// Runs forward and backward of these micro-batches and discards the gradients. All ranks run the
// same one at the same time. Weights, optimizer state and random streams do not change. A rank's
// time is measured between two points at which its compute stream is empty, without the stream's
// waits for communication. Each micro-batch runs once to warm up, then two to five times. The time
// limit of the repeats is 2 s or 1 % of the run, whichever is more. Every rank computes the same
// result from the timings of all. Collective. Logs the result in one line.
MeasuredCost measure_cost(const RunPlan& plan, const TokenStore& store, std::int64_t first_step,
                          ShardedModel& model, const Device& device, World& world);

}  // namespace packtrain
