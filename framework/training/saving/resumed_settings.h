// What a run that goes on from a checkpoint was given otherwise than the run that saved it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "framework/config/config.h"
#include "framework/training/plan/run_plan.h"

namespace packtrain {

// Of the present run, in the units of ResumePoint.
struct CurrentSettings {
  const Config& config;
  const PlanSettings& plan;
  std::string model_config;
  std::int64_t total_steps = 0;
};

// Settings that decide a run's numbers and are not what they were: data, order and batches, the
// model, optimizer, schedule and precision; the run's length where the schedule depends on it. How
// a step is laid over ranks and memory, what is reported, saved and watched may change at any time.
// What the checkpoint does not know (an older one) is not compared.
std::vector<SettingChange> changed_settings(const ResumePoint& resumed,
                                            const CurrentSettings& present);

// Keys whose every change is one of those, beside plan_settings().
std::span<const char* const> keys_fixed_on_resume();

// Throws Error(kCheckpoint) where a checkpoint's model has more or fewer parameters than the
// present one: no setting can allow that. Models saved with no config (older ones) are not
// compared.
void check_model_size(const ResumePoint& resumed, const std::string& present_model_config);

// Throws Error(kCheckpoint) naming every change whose key is not in `allowed`
// (checkpoint.allow_changed); logs the others as warnings. `folder`: of the checkpoint.
void check_changes(const std::vector<SettingChange>& changes,
                   const std::vector<std::string>& allowed, const std::string& folder);

}  // namespace packtrain
