// The baseline: longest-first greedy, the usual balancer, on the same steps.
#pragma once

#include "samplers/options.h"
#include "samplers/plan.h"

namespace packtrain {

// Utilisation of a step whose pieces are assigned to all ranks longest first. It uses as few
// micro-batches as the greedy needs, and groups bins of similar cost. Utilisation = (cost / ranks)
// / sum over micro-batches of the slowest rank's cost.
double longest_first_utilization(const StepPlan& plan, const PlanOptions& options);

}  // namespace packtrain
