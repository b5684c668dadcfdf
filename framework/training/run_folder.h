// The files of a run's folder that are not metrics, logs or checkpoints.
#pragma once

#include <string>

#include "framework/config/config.h"
#include "samplers/options.h"
#include "samplers/planner.h"

namespace packtrain {

std::string checkpoints_folder(const Config& config);  // run.output/checkpoints
std::string run_name(const Config& config);            // last part of run.output

// Writes config.yaml (resolved) and plan.json (what a plan depends on, and what was left out).
void write_run_files(const Config& config, const PlanOptions& options, const Planner& planner,
                     std::int64_t total_steps);

}  // namespace packtrain
