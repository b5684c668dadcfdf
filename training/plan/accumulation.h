// Resolves parallel.accumulate: when a step of several micro-batches reduces its gradients.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "framework/config/config.h"
#include "framework/device/device.h"
#include "models/layers/decoder_config.h"
#include "parallel/communicators/world.h"
#include "samplers/plan.h"
#include "training/plan/memory_limit.h"
#include "training/plan/plan_header.h"
#include "training/plan/step_time_model.h"

namespace packtrain {

// Micro-batches of a rank in the steps that were looked at.
struct MicroBatchCounts {
  double mean = 1;
  bool most_have_several = false;  // at least half of the steps
};

// Looks at a few steps from `first_step` on, before `end_step`.
MicroBatchCounts count_micro_batches(const std::function<StepPlan(std::int64_t)>& plan,
                                     std::int64_t first_step, std::int64_t end_step);

struct AccumulationInput {
  Config config;  // with the shard size, and without what memory decides
  DecoderConfig decoder;
  std::int64_t max_tokens = 0;  // of a micro-batch
  StepWork work;
  // Called at most once, and only where `auto` may choose kLocal: it plans steps.
  std::function<MicroBatchCounts()> count;
  std::optional<FittedMemory> fitted = {};  // what memory.fit chose for kShard
  // Of the checkpoint, where it has as many ranks: a resumed run keeps it, so that its numbers stay
  // the same.
  std::optional<Accumulate> kept = {};
};

struct AccumulationChoice {
  Accumulate accumulate = Accumulate::kShard;
  std::optional<FittedMemory> fitted = {};  // the input's, or what memory.fit chose for kLocal
  std::string fit = "";                     // the latter for people, else empty
};

// The given value. It is kShard where nothing is to win: one rank has a whole copy, or no step can
// have several micro-batches. `auto`: kLocal on GPUs where most steps have several and the memory
// plan fits. What memory.fit chooses is chosen again for it; kLocal must then be faster by the
// model of times. Rank 0 logs kLocal. Collective. Must run before the run allocates anything on the
// device.
AccumulationChoice choose_accumulation(const AccumulationInput& input, const Device& device,
                                       World& world);
// The same for an assumed device, without ranks.
AccumulationChoice assumed_accumulation(const AccumulationInput& input,
                                        const AssumedDevice& device);

const char* name_of(Accumulate accumulate);  // as in the configuration

}  // namespace packtrain
