// The yardstick: what plain longest-first greedy, the usual balancer, makes of the same steps.
#pragma once

#include "samplers/options.h"
#include "samplers/plan.h"

namespace packtrain {

// Utilisation of the step's pieces laid over all ranks longest first, into as few micro-batches as
// it finds room for, bins of similar cost together: (cost / ranks) / sum over micro-batches of the
// slowest rank's cost.
double longest_first_utilization(const StepPlan& plan, const PlanOptions& options);

}  // namespace packtrain
