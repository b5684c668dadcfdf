#include "launch/cli/plan_course.h"

#include <cstdint>

#include "framework/config/adapters.h"
#include "training/steps/due_steps.h"
#include "training/steps/learning_rate.h"

namespace packtrain {

void add_course(const Config& config, const Planner& planner, PlanReport& report) {
  const std::int64_t num_steps = report.num_steps;
  report.length = describe_length(config.run, planner);
  if (has_validation(config)) {
    report.evaluations = describe_due(config.run.evaluate_steps, true, num_steps, planner);
    if (config.run.evaluate_at_start) report.evaluations = "at the start, " + report.evaluations;
  }
  report.saves =
      describe_due(config.checkpoint.save_steps, config.checkpoint.save_final, num_steps, planner);
  if (!config.adapters.empty()) return;                    // each has a schedule of its own
  if (!schedule_fits(config.schedule, num_steps)) return;  // plan_warnings reports it
  const LearningRate rate(config.optimizer.learning_rate, config.schedule, num_steps);
  for (const std::int64_t step : schedule_boundaries(config.schedule, num_steps)) {
    report.learning_rates.emplace_back(step + 1, rate.at(step));
  }
}

TrainingTokens training_of(const Config& config, const Planner& planner, const PlanReport& report) {
  TrainingTokens training = training_tokens(report.survey.num_tokens(), report.survey.num_steps(),
                                            planner.num_steps(1), report.num_steps);
  training.num_parameters = report.memory.num_parameters;
  training.from_random_weights = config.model.path.empty();
  return training;
}

}  // namespace packtrain
