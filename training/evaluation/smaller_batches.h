// Smaller micro-batches for an evaluation that ran out of memory.
#pragma once

#include <cstdint>
#include <string>

#include "samplers/plan.h"
#include "training/evaluation/collective_evaluation.h"

namespace packtrain {

// Three quarters of the tokens of the plan's largest micro-batch with several examples, or
// groups, as in plan/run_plan.h. 0 when every micro-batch has one.
std::int64_t smaller_budget(const StepPlan& plan, std::int64_t budget);

// The error of the evaluation `what` when smaller_budget() returns 0.
EvaluationError does_not_fit(const std::string& what, const EvaluationOutOfMemory& error);

}  // namespace packtrain
