// Files of a run's folder other than metrics, logs and checkpoints.
#pragma once

#include <string>

#include "framework/config/config.h"
#include "training/plan/run_plan.h"

namespace packtrain {

std::string run_name(const Config& config);  // last part of run.output

// Writes config.yaml (resolved) and plan.json (the plan header, and the selection's counts).
void write_run_files(const Config& config, const RunPlan& plan);

}  // namespace packtrain
