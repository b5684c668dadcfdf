// Finished runs made up for tests.
#pragma once

#include "training/comparison/comparison.h"

namespace packtrain::test {

struct MadeRun {
  std::string strategy;
  std::uint64_t seed = 0;
  std::int64_t num_steps = 8;
  double step_time_s = 0.5;
  double first_step_time_s = 9.0;  // of the warm-up steps
  double final_loss = 2.0;         // validation: falls by one a step to this
  std::int64_t evaluate_steps = 2;
};

// 100 tokens a step, training loss = step number.
inline ComparedRun make_run(const MadeRun& made) {
  ComparedRun run{made.strategy, made.seed, "runs/" + made.strategy, 0.75, {}};
  for (std::int64_t step = 1; step <= made.num_steps; ++step) {
    StepRecord record;
    record.step = step;
    record.loss = static_cast<double>(step);
    record.num_tokens = 100;
    record.num_loss_tokens = 50;
    record.step_time_s =
        step <= static_cast<std::int64_t>(kWarmupSteps) ? made.first_step_time_s : made.step_time_s;
    record.padding_fraction = 0.25;
    record.peak_memory_bytes = step * (std::int64_t{1} << 30);
    run.history.steps.push_back(record);
    if (step % made.evaluate_steps != 0 && step != made.num_steps) continue;
    EvaluationRecord evaluation;
    evaluation.step = step;
    evaluation.loss = made.final_loss + static_cast<double>(made.num_steps - step);
    run.history.evaluations.push_back(evaluation);
  }
  return run;
}

}  // namespace packtrain::test
