// How an evaluation that takes too much memory is laid out anew.
#pragma once

#include <cstdint>
#include <string>

#include "framework/training/evaluation/collective_evaluation.h"
#include "samplers/plan.h"

namespace packtrain {

// Three quarters of the tokens of the plan's largest micro-batch of several examples, as for a
// step (plan/run_plan.h); 0 where every example has one alone already.
std::int64_t smaller_budget(const StepPlan& plan, std::int64_t budget);

// Of `what`, where smaller_budget() gives 0.
EvaluationError does_not_fit(const std::string& what, const EvaluationOutOfMemory& error);

}  // namespace packtrain
