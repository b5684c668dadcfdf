#include "training/plan/plan_continuation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "framework/config/resolve.h"
#include "framework/core/error.h"
#include "framework/core/logging.h"
#include "samplers/planner.h"
#include "samplers/strategies/strategy.h"

namespace packtrain {
namespace {

constexpr const char* kStrategy = "batch.strategy";

const std::string* find(const PlanSettings& settings, const char* key) {
  const auto found = std::ranges::find(settings, key, &PlanSettings::value_type::first);
  return found == settings.end() ? nullptr : &found->second;
}

// Strategies that make the same steps have one value, a list with commas.
std::string strategy_name(const std::string& text) {
  return text.find(',') == std::string::npos ? text : "balanced";
}

Config checked_config(const std::vector<Setting>& values) {
  try {
    return resolve_settings(values);
  } catch (const Error& error) {
    throw Error(ErrorCategory::kCheckpoint,
                fmt::format("the checkpoint's plan header is damaged: {}", error.message()),
                "Use an older checkpoint.");
  }
}

// Options that decide a step's examples. The layout over ranks is left at its default.
PlanOptions options_from(const PlanSettings& settings, int order_version) {
  constexpr auto kNoBudget = std::numeric_limits<std::int32_t>::max();
  std::vector<Setting> values = {
      read_override(fmt::format("batch.max_tokens_per_micro_batch={}", kNoBudget))};
  for (const auto& [key, text] : settings) {
    if (key.starts_with("data.train")) continue;
    values.push_back(read_override(key + "=" + (key == kStrategy ? strategy_name(text) : text)));
  }
  const Config config = checked_config(values);
  PlanOptions options;
  options.strategy = config.batch.strategy;
  options.order = config.batch.order;
  options.too_long = config.data.too_long;
  options.max_length = config.data.max_length;
  options.global_batch_size = config.batch.global_batch_size.value_or(0);
  options.global_batch_tokens = config.batch.global_batch_tokens.value_or(0);
  options.packing_window = config.batch.packing_window;
  options.share_prefixes = config.batch.share_prefixes;
  options.max_tokens_per_micro_batch = *config.batch.max_tokens_per_micro_batch;
  options.micro_batch_size = 1;
  options.seed = config.run.seed;
  options.order_version = order_version;
  return options;
}

// Start of the plan that replaces the one of `options` at `step`.
PlanStart start_behind(const PlanOptions& options, PlanStart start, std::int64_t step,
                       const TokenStore& store) {
  return Planner(store, options, std::move(start)).start_at(step);
}

// Start of the plan with the checkpoint's own settings.
PlanStart start_of(const PlanHeader& header, const TokenStore& store) {
  const auto& earlier = header.earlier;
  if (earlier.empty()) {
    return {.step = header.from_step, .epoch = header.first_epoch, .trained = {}};
  }
  PlanStart start{
      .step = earlier.front().from_step, .epoch = earlier.front().first_epoch, .trained = {}};
  for (std::size_t i = 0; i < earlier.size(); ++i) {
    const std::int64_t next = i + 1 < earlier.size() ? earlier[i + 1].from_step : header.from_step;
    const PlanOptions options = options_from(earlier[i].settings, header.order_version);
    start = start_behind(options, std::move(start), next, store);
  }
  return start;
}

Continuation with_other_data(const ResumePoint& resumed) {
  Continuation continuation{.start = {}, .is_new = true, .is_other_data = true, .repeats = {}};
  continuation.start.step = resumed.step;
  continuation.start.epoch = resumed.epoch + (resumed.header.ends_epoch ? 1 : 0);
  if (resumed.header.ends_epoch || resumed.step == 0) return continuation;
  continuation.repeats = fmt::format(
      "data.train is other data, so that epoch {} begins again with it: what both have in common "
      "and was trained in that epoch is trained again",
      resumed.epoch + 1);
  return continuation;
}

}  // namespace

Continuation continue_plan(const ResumePoint& resumed, const PlanSettings& present,
                           const TokenStore& store) {
  const PlanHeader& header = resumed.header;
  if (find(header.settings, kStrategy) == nullptr) return {};
  const auto changes = changes_of(header.settings, present);
  const auto is_data = [](const SettingChange& change) { return change.key == "data.train"; };
  if (std::ranges::any_of(changes, is_data)) return with_other_data(resumed);
  if (changes.empty() && header.from_step == 0) return {};
  Continuation continuation{.start = start_of(header, store), .repeats = {}};
  if (changes.empty()) return continuation;
  continuation.is_new = true;
  continuation.start = start_behind(options_from(header.settings, header.order_version),
                                    std::move(continuation.start), resumed.step, store);
  if (const std::int64_t num_cut = continuation.start.num_cut; num_cut > 0) {
    continuation.repeats = fmt::format(
        "{} example{} of epoch {} {} cut by steps before and trained in part: the whole of {} is "
        "trained again",
        num_cut, num_cut == 1 ? "" : "s", continuation.start.epoch + 1,
        num_cut == 1 ? "was" : "were", num_cut == 1 ? "it" : "each");
  }
  return continuation;
}

void add_continuation(const ResumePoint& resumed, const Continuation& continuation,
                      PlanHeader& header) {
  const PlanHeader& before = resumed.header;
  if (!continuation.is_new) {
    header.earlier = before.earlier;
    header.from_step = before.from_step;
    header.first_epoch = before.first_epoch;
    header.schedule_position = before.schedule_position;
    return;
  }
  header.from_step = continuation.start.step;
  header.first_epoch = continuation.start.epoch;
  if (continuation.is_other_data) return;
  header.earlier = before.earlier;
  header.earlier.push_back({before.from_step, before.first_epoch, before.settings});
}

std::int64_t schedule_position(const PlanStart& start, const RunSection& run,
                               std::int64_t total_steps) {
  double done = 0;  // share of the run
  if (run.max_steps) {
    done = static_cast<double>(start.step) / static_cast<double>(*run.max_steps);
  } else {
    const double of_epoch = start.num_selected == 0 ? 0.0
                                                    : static_cast<double>(start.num_trained) /
                                                          static_cast<double>(start.num_selected);
    done = (static_cast<double>(start.epoch) + of_epoch) / static_cast<double>(run.num_epochs);
  }
  const std::int64_t left = total_steps - start.step;
  if (left <= 0 || done >= 1) return start.step;
  return std::llround(static_cast<double>(left) * done / (1 - done));
}

void check_continuation(const Continuation& continuation, const CheckpointSection& checkpoint,
                        const std::string& folder, int rank) {
  if (!continuation.is_new) return;
  const PlanStart& start = continuation.start;
  if (!continuation.repeats.empty() && !checkpoint.allow_repeated) {
    throw Error(
        ErrorCategory::kCheckpoint,
        fmt::format("{}: with the changed settings the run cannot continue exactly after what "
                    "was trained: {}",
                    folder, continuation.repeats),
        "Restore the settings, give this run its own run.output, or set "
        "checkpoint.allow_repeated: true to continue so; nothing is left out.");
  }
  if (rank != 0) return;
  if (!continuation.repeats.empty()) {
    log_warning("{} (allowed by checkpoint.allow_repeated)", continuation.repeats);
  }
  log_info("other batches from step {} on: epoch {} continues after {} of its {} examples",
           start.step + 1, start.epoch + 1, start.num_trained,
           start.num_selected == 0 ? std::string("new") : std::to_string(start.num_selected));
}

}  // namespace packtrain
