// What happens in the course of a planned run, and how much it trains.
#pragma once

#include "framework/config/config.h"
#include "launch/cli/plan_report.h"
#include "samplers/planner.h"
#include "training/plan/training_tokens.h"

namespace packtrain {

// Enters the events of the run and the steps after which they happen. Reads report.num_steps.
void add_course(const Config& config, const Planner& planner, PlanReport& report);

// Reads survey, steps and memory of the report.
TrainingTokens training_of(const Config& config, const Planner& planner, const PlanReport& report);

}  // namespace packtrain
