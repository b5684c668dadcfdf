// How a resumed run's plan goes on from that of its checkpoint, where its batches are other ones:
// behind the examples of the epoch that were trained.
#pragma once

#include <cstdint>
#include <string>

#include "framework/config/config.h"
#include "framework/data/token_store.h"
#include "framework/training/plan/plan_header.h"
#include "framework/training/plan/run_plan.h"
#include "samplers/loss_counter.h"
#include "samplers/plan_start.h"

namespace packtrain {

struct Continuation {
  PlanStart start;
  bool is_new = false;  // from this resume on: settings differ from the checkpoint's
  bool is_other_data = false;
  // What is trained a second time within the epoch, in words; empty: nothing.
  std::string repeats;
};

// Replays the plans that the checkpoint tells of, as far as the epochs in question need it. Exact
// for batches of whole examples of any size, strategy and order; an example that a step
// has cut is trained again, and the epoch where the data are other ones. Of checkpoints that do not
// say how they planned (older than plan headers) nothing. O(examples) where settings differ.
Continuation continue_plan(const ResumePoint& resumed, const PlanSettings& present,
                           const TokenStore& store, const LossCounter& counter);

// The header's part of that; `schedule_position` is not set.
void add_continuation(const ResumePoint& resumed, const Continuation& continuation,
                      PlanHeader& header);

// Where the schedule of a run stands that goes on at `start` and has `total_steps` in the end: at
// the share of the run that is done, of its examples or of run.max_steps.
std::int64_t schedule_position(const PlanStart& start, const RunSection& run,
                               std::int64_t total_steps);

// Throws Error(kCheckpoint) where something is trained again that checkpoint.allow_repeated does
// not allow; says on rank 0 how the run goes on.
void check_continuation(const Continuation& continuation, const CheckpointSection& checkpoint,
                        const std::string& folder, int rank);

}  // namespace packtrain
