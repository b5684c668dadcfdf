// How a resumed run with other batches continues the plan of its checkpoint: after the examples of
// the epoch that were trained.
#pragma once

#include <cstdint>
#include <string>

#include "framework/config/config.h"
#include "framework/data/token_store.h"
#include "samplers/plan_start.h"
#include "training/plan/plan_header.h"
#include "training/plan/run_plan.h"

namespace packtrain {

struct Continuation {
  PlanStart start;
  bool is_new = false;  // from this resume on: settings differ from the checkpoint's
  bool is_other_data = false;
  // What is trained a second time within the epoch, in words. Empty: nothing.
  std::string repeats;
};

// Replays the plans in the checkpoint's header, as far as the epochs in question need it. Exact for
// batches of whole examples, of any size, strategy and order. An example that a step has cut is
// trained again. With other data the epoch is trained again. Returns nothing for checkpoints
// without a plan header (older ones). O(examples) when settings differ.
Continuation continue_plan(const ResumePoint& resumed, const PlanSettings& present,
                           const TokenStore& store);

// Writes the continuation into the header, except `schedule_position`.
void add_continuation(const ResumePoint& resumed, const Continuation& continuation,
                      PlanHeader& header);

// Position in the schedule of a run that resumes at `start` and ends at `total_steps`. It is the
// finished share of the run, of its examples or of run.max_steps.
std::int64_t schedule_position(const PlanStart& start, const RunSection& run,
                               std::int64_t total_steps);

// Throws Error(kCheckpoint) when something is trained again that checkpoint.allow_repeated does not
// allow. Rank 0 logs how the run continues.
void check_continuation(const Continuation& continuation, const CheckpointSection& checkpoint,
                        const std::string& folder, int rank);

}  // namespace packtrain
