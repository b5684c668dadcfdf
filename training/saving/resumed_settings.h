// Settings that differ from those saved in the checkpoint.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "framework/config/config.h"
#include "training/plan/run_plan.h"

namespace packtrain {

// Settings of the present run, in the form of ResumePoint.
struct CurrentSettings {
  const Config& config;
  const PlanSettings& plan;
  std::string model_config;
  std::int64_t total_steps = 0;
};

// Changed settings that affect a run's numbers: data, order, batches, model, optimizer, schedule
// and precision. Also the run's length when the schedule depends on it. Settings of layout over
// ranks, memory, reports, saves and watchdogs may change at any time and are not compared. Keys
// that an older checkpoint lacks are not compared.
std::vector<SettingChange> changed_settings(const ResumePoint& resumed,
                                            const CurrentSettings& present);

// Keys of which every change affects a run's numbers, in addition to plan_settings().
std::span<const char* const> keys_fixed_on_resume();

// Throws Error(kCheckpoint) when the checkpoint's model has another number of parameters than the
// present one. No setting can allow that. Models saved without a config (older ones) are not
// compared.
void check_model_size(const ResumePoint& resumed, const std::string& present_model_config);

// Says that the weights of a changed model.path are not read: a resumed run has those of its
// checkpoint. "" for the same path, and under an adapter, whose base is read and compared.
std::string unread_model_path(const ResumePoint& resumed, const Config& present);

// Throws Error(kCheckpoint) naming every change whose key is not in `allowed`
// (checkpoint.allow_changed), or that cannot be allowed. Logs the others as warnings. `folder`: of
// the checkpoint.
void check_changes(const std::vector<SettingChange>& changes,
                   const std::vector<std::string>& allowed, const std::string& folder);

}  // namespace packtrain
