// The plan header: all that a step's plan depends on besides the data. Settings that decide which
// examples a step has, fixed for the whole run, and a list of entries for how steps are laid over
// ranks, each from some step on. Saved in checkpoints and in the run folder.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "framework/config/config.h"
#include "samplers/options.h"
#include "samplers/order.h"

namespace packtrain {

struct PlanEntry {
  PlanLayout layout;
  int num_ranks = 1;  // costs and speeds hold for these alone
  CostSource cost_source = CostSource::kFlops;
  // The budget that was configured or found, where running out of memory has lowered the layout's;
  // else 0.
  std::int64_t lowered_from = 0;
  // Ranks that share one copy of the model's state, where memory has decided it; else 0.
  int shard_size = 0;

  // What was configured or found.
  std::int64_t first_budget() const {
    return lowered_from > 0 ? lowered_from : layout.max_tokens_per_micro_batch;
  }
  friend bool operator==(const PlanEntry&, const PlanEntry&) = default;
};

// Configuration keys and their values as text; those that explain others come first.
using PlanSettings = std::vector<std::pair<std::string, std::string>>;

// A plan that the present one went on from, from its step on.
struct EarlierPlan {
  std::int64_t from_step = 0;
  std::int64_t first_epoch = 0;
  PlanSettings settings;

  friend bool operator==(const EarlierPlan&, const EarlierPlan&) = default;
};

struct PlanHeader {
  PlanSettings settings;
  std::vector<PlanEntry> entries;  // ascending by from_step; the newest one is in force
  // Of the epochs' orders (samplers/order.h). Headers of older versions have none: 1.
  int order_version = kOrderVersion;

  // `entry` holds from its step on. Nothing changes when the newest one says the same.
  void begin(PlanEntry entry);
  // Those for `num_ranks`, as Planner::set_layouts takes them.
  std::vector<PlanLayout> layouts(int num_ranks) const;

  // Where other settings were allowed at a resume (plan_continuation.h): the plans before,
  // ascending, the step and epoch from which on `settings` hold, and where the learning rate's
  // schedule stands there (SchedulePosition).
  std::vector<EarlierPlan> earlier;
  std::int64_t from_step = 0;
  std::int64_t first_epoch = 0;
  std::int64_t schedule_position = 0;
  bool ends_epoch = false;  // of a checkpoint: its last step was its epoch's last one

  friend bool operator==(const PlanHeader&, const PlanHeader&) = default;
};

std::string data_setting(const std::string& data_fingerprint);  // the value of data.train

// What decides which examples a step has. `options`: of the run; `data_fingerprint` and
// `content_digest`: of the training data, the latter "" where the stores have none. Strategies that
// make the same steps are one value; the token budget is there only where packs are made of it.
PlanSettings plan_settings(const Config& config, const PlanOptions& options,
                           const std::string& data_fingerprint,
                           const std::string& content_digest = "");

struct SettingChange {
  std::string key;
  std::string saved;
  std::string present;
};

// Settings that differ, each once, where a run would not go on with the optimizer batches of the
// checkpoint. What `saved` does not have is not compared.
std::vector<SettingChange> changes_of(const PlanSettings& saved, const PlanSettings& present);

std::string plan_header_text(const PlanHeader& header);  // a JSON object
// Throws Error(kCheckpoint) naming `where` when it is not what plan_header_text() makes.
PlanHeader parse_plan_header(const std::string& text, const std::string& where);

}  // namespace packtrain
