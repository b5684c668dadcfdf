// The plan header: everything except the data that a step's plan depends on. Its settings decide
// which examples a step has and hold for the whole run. Its entries decide how steps are laid over
// ranks, each from some step on. Saved in checkpoints and in the run folder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "framework/config/config.h"
#include "samplers/options.h"
#include "samplers/order.h"

namespace packtrain {

// What memory.fit chose, in addition to the token budget.
struct FittedMemory {
  RecomputeByLayer recompute;
  int gather_slots = 0;
  Offload offload = Offload::kNone;

  friend bool operator==(const FittedMemory&, const FittedMemory&) = default;
};

struct PlanEntry {
  PlanLayout layout;
  int num_ranks = 1;  // costs and speeds hold for this number only
  CostSource cost_source = CostSource::kFlops;
  // The configured or found budget, when running out of memory has lowered the layout's. Else 0.
  std::int64_t lowered_from = 0;
  // Ranks that share one copy of the model's state, when memory decided it. Else 0.
  int shard_size = 0;
  std::optional<FittedMemory> fitted = {};
  Accumulate accumulate = Accumulate::kShard;  // resolved parallel.accumulate

  // The configured or found budget.
  std::int64_t first_budget() const {
    return lowered_from > 0 ? lowered_from : layout.max_tokens_per_micro_batch;
  }
  friend bool operator==(const PlanEntry&, const PlanEntry&) = default;
};

// Configuration keys and their values as text. A setting that explains others comes before them.
using PlanSettings = std::vector<std::pair<std::string, std::string>>;

// A plan that an earlier part of the run used, and from which step.
struct EarlierPlan {
  std::int64_t from_step = 0;
  std::int64_t first_epoch = 0;
  PlanSettings settings;

  friend bool operator==(const EarlierPlan&, const EarlierPlan&) = default;
};

struct PlanHeader {
  PlanSettings settings;
  std::vector<PlanEntry> entries;  // ascending by from_step; the newest one is in force
  // Version of the epochs' orders (samplers/order.h). Headers of older versions have none: 1.
  int order_version = kOrderVersion;

  // `entry` holds from its step on. Does nothing when the newest entry is equal.
  void begin(PlanEntry entry);
  // The layouts for `num_ranks`, in the form that Planner::set_layouts takes.
  std::vector<PlanLayout> layouts(int num_ranks) const;

  // Set when a resume allowed other settings (plan_continuation.h). `earlier`: the plans before,
  // ascending. `from_step`, `first_epoch`: from where on `settings` hold. `schedule_position`: the
  // position in the learning rate schedule there (SchedulePosition).
  std::vector<EarlierPlan> earlier;
  std::int64_t from_step = 0;
  std::int64_t first_epoch = 0;
  std::int64_t schedule_position = 0;
  bool ends_epoch = false;  // of a checkpoint: its last step was the last of its epoch

  friend bool operator==(const PlanHeader&, const PlanHeader&) = default;
};

std::string data_setting(const std::string& data_fingerprint);  // the value of data.train

// The settings that decide which examples a step has. `options`: of the run. `data_fingerprint` and
// `content_digest`: of the training data; the digest is "" when the stores have none. Strategies
// that make the same steps have one value. The token budget is included only when packs are made of
// it.
PlanSettings plan_settings(const Config& config, const PlanOptions& options,
                           const std::string& data_fingerprint,
                           const std::string& content_digest = "");

struct SettingChange {
  std::string key;
  std::string saved;
  std::string present;
  // False: a run cannot continue with it, also where checkpoint.allow_changed names it.
  bool can_be_allowed = true;
};

// Settings that differ and would give a run other optimizer batches than the checkpoint's, each
// once. Keys that `saved` lacks are not compared.
std::vector<SettingChange> changes_of(const PlanSettings& saved, const PlanSettings& present);

std::string plan_header_text(const PlanHeader& header);  // a JSON object
// Throws Error(kCheckpoint) naming `where` when `text` is not the output of plan_header_text().
PlanHeader parse_plan_header(const std::string& text, const std::string& where);

}  // namespace packtrain
