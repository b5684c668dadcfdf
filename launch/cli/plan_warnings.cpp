#include "launch/cli/plan_warnings.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "framework/core/units.h"
#include "framework/data/special_tokens.h"
#include "framework/data/store_parts.h"
#include "training/plan/shard_size.h"
#include "training/setup/training_store.h"
#include "training/steps/learning_rate.h"

namespace packtrain {
namespace {

constexpr std::int64_t kFewSteps = 20;
constexpr double kFewLabels = 0.01;         // of all tokens
constexpr double kNoRoom = 0.97;            // of the memory; estimates are within 3 %
constexpr double kManyLeftOut = 0.01;       // of all examples
constexpr std::int64_t kNumSampled = 2000;  // examples

using Warnings = std::vector<PlanWarning>;

double share(std::int64_t part, std::int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(std::max<std::int64_t>(1, whole));
}

void check_memory(const Config& config, const PlanReport& report, Warnings& warnings) {
  const MemoryForecast& memory = report.memory;
  double limit = static_cast<double>(memory.gpu_bytes);
  std::string name = "a GPU";
  if (config.memory.limit_gib) {
    limit = *config.memory.limit_gib * kGibibyte;
    name = "memory.limit_gib";
  }
  const auto planned = static_cast<double>(memory.plan.total());
  const double share = memory.fit.empty() ? kNoRoom : 1;  // memory.fit leaves a reserve itself
  if (limit == 0 || planned <= share * limit) return;
  const std::string sharing =
      sharing_advice(memory.plan, memory.ranks, static_cast<std::int64_t>(limit));
  warnings.push_back(
      {"memory",
       fmt::format("a rank is to take {:.2f} GiB, {} has {:.2f}", planned / kGibibyte, name,
                   limit / kGibibyte),
       fmt::format("Lower batch.max_tokens_per_micro_batch (or auto), raise memory.recompute{}{}.",
                   sharing.empty() ? "" : ", or ", sharing) +
           (memory.remedies.empty() ? "" : " What fits: " + memory.remedies + ".")});
}

void check_host_memory(const MemoryForecast& memory, Warnings& warnings) {
  HostShortage shortage = find_host_shortage(memory.host);
  if (shortage.what.empty()) return;
  warnings.push_back({"host_memory", std::move(shortage.what), std::move(shortage.advice)});
}

void check_rounding(const Config& config, const MemoryForecast& memory, Warnings& warnings) {
  auto rounding = ring_rounding(config, memory.hosts, memory.ranks.shard_size, memory.ranks.device);
  if (!rounding) return;
  warnings.push_back({"reduce_rounding", std::move(rounding->what), std::move(rounding->advice)});
}

void check_steps(const Config& config, const PlanReport& report, Warnings& warnings) {
  const std::int64_t num_steps = report.num_steps;
  if (num_steps < kFewSteps) {
    warnings.push_back({"few_steps", fmt::format("the run has only {} optimizer steps", num_steps),
                        fmt::format("Lower {}, or raise run.num_epochs.", report.batch_size_key)});
  }
  const std::int64_t warmup = num_warmup_steps(config.schedule, num_steps);
  if (warmup >= num_steps && warmup > 1) {
    warnings.push_back(
        {"warmup",
         fmt::format("the learning rate warms up for {} steps, and the run has {}: {}", warmup,
                     num_steps,
                     warmup > num_steps ? "train will refuse it" : "the rate never stays high"),
         "Lower schedule.warmup_steps or schedule.warmup_ratio."});
  }
}

void check_decay(const Config& config, const PlanReport& report, Warnings& warnings) {
  if (config.schedule.name != ScheduleKind::kWarmupStableDecay) return;
  const std::int64_t warmup = num_warmup_steps(config.schedule, report.num_steps);
  const std::int64_t decay = num_decay_steps(config.schedule, report.num_steps);
  if (warmup > report.num_steps || schedule_fits(config.schedule, report.num_steps)) return;
  warnings.push_back({"decay",
                      fmt::format("the learning rate warms up for {} steps and falls for {}, and "
                                  "the run has {}: train will refuse it",
                                  warmup, decay, report.num_steps),
                      "Lower schedule.decay_steps or schedule.warmup_steps."});
}

// What a plan of the store counts and places as a whole.
const char* unit_name(const PlanReport& report) {
  return report.group_kind.empty() ? "example" : "group";
}

void check_labels(const TokenStore& store, const PlanReport& report, Warnings& warnings) {
  const PlanSummary& survey = report.survey;
  const double labels = share(survey.num_loss_tokens(), survey.num_tokens());
  if (labels < kFewLabels) {
    warnings.push_back({"few_labels",
                        fmt::format("only {} of {} tokens ({:.2f} %) have a label",
                                    survey.num_loss_tokens(), survey.num_tokens(), 100 * labels),
                        "Look at some with `packtrain inspect`: is the mask what it should be?"});
  }
  const std::int64_t num_units = num_units_of(store);
  const std::int64_t masked = report.losses.masked_examples;
  if (share(masked, num_units) >= kManyLeftOut) {
    warnings.push_back(
        {"masked_examples",
         fmt::format("{} of {} {}s have no label and are left out", masked, num_units,
                     unit_name(report)),
         "Look at some with `packtrain inspect`, or prepare the data without them."});
  }
}

void check_cuts(const Config& config, const TokenStore& store, const PlanReport& report,
                Warnings& warnings) {
  const SelectionCounts& losses = report.losses;
  const std::int64_t max_length = config.data.max_length;
  if (losses.dropped_examples > 0) {
    warnings.push_back({"dropped",
                        fmt::format("{} {}s are longer than data.max_length = {} and dropped",
                                    losses.dropped_examples, unit_name(report), max_length),
                        report.group_kind.empty()
                            ? "Raise data.max_length, or choose data.too_long: split."
                            : "Raise data.max_length."});
  }
  if (std::string what = truncated_to_empty(losses, store, config.data); !what.empty()) {
    warnings.push_back({"cut_to_nothing", std::move(what), kTruncatedToEmptyAdvice});
  }
  if (losses.truncated_examples > 0) {
    warnings.push_back(
        {"truncated",
         fmt::format("{} examples are cut at data.max_length = {}: their ends, with the token that "
                     "ends them, are not learned",
                     losses.truncated_examples, max_length),
         "Raise data.max_length, or choose data.too_long: split."});
  }
  if (report.survey.split_examples() > 0) {
    warnings.push_back(
        {"split",
         fmt::format("{} examples are cut into pieces that do not see each other",
                     report.survey.split_examples()),
         traits_of(config.batch.strategy).has_rows
             ? "batch.strategy: fixed_length does so by its nature; balanced keeps examples whole."
             : "Raise data.max_length to keep them whole."});
  }
}

void check_positions(const Config& config, const DecoderConfig& decoder, const TokenStore& store,
                     Warnings& warnings) {
  std::string what = exceeds_max_positions(store, config.data, decoder.max_positions);
  if (what.empty()) return;
  warnings.push_back({"positions", std::move(what), kExceedsMaxPositionsAdvice});
}

// A plan file may leave examples out when its header says so.
void check_plan_file(const Config& config, const TokenStore& store, const PlanReport& report,
                     Warnings& warnings) {
  const std::int64_t num_selected = num_units_of(store) - left_out(report.losses);
  const std::int64_t num_planned =
      report.group_kind.empty() ? report.survey.num_examples() : report.survey.num_groups();
  const std::int64_t num_missing = num_selected - num_planned;
  if (num_missing == 0) return;
  warnings.push_back(
      {"not_in_plan_file",
       fmt::format("{} leaves out {} of {} {}s of the first epoch", config.batch.plan_file,
                   num_missing, num_selected, unit_name(report)),
       "Its header has leaves_examples_out: true, so that this is allowed."});
}

void check_batches(const Config& config, const TokenStore& store, const PlanReport& report,
                   Warnings& warnings) {
  if (traits_of(config.batch.strategy).has_plan_file)
    return check_plan_file(config, store, report, warnings);
  const auto examples = config.batch.global_batch_size;
  if (examples && *examples < report.memory.num_ranks) {
    warnings.push_back({"idle_ranks",
                        fmt::format("a step has {} {}s for {} ranks: some have nothing to do",
                                    *examples, unit_name(report), report.memory.num_ranks),
                        "Raise batch.global_batch_size, or take fewer ranks."});
  }
}

void check_validation(const PlanReport& report, Warnings& warnings) {
  for (const ValidationOverlap& overlap : report.overlaps) {
    warnings.push_back({"validation", overlap.what(), kOverlapAdvice});
  }
}

// Number of learned passages, and of those that end in one of `ends`.
struct Passages {
  std::int64_t num = 0;
  std::int64_t num_ended = 0;

  void add(std::span<const std::int32_t> ids, std::span<const std::uint8_t> mask,
           const std::unordered_set<std::int32_t>& ends) {
    for (std::size_t t = 1; t < ids.size(); ++t) {
      const bool is_last = mask[t] != 0 && (t + 1 == ids.size() || mask[t + 1] == 0);
      if (!is_last) continue;
      ++num;
      num_ended += ends.contains(ids[t]) ? 1 : 0;
    }
  }
};

void check_ends(const Config& config, const TokenStore& store, Warnings& warnings) {
  const std::unordered_set<std::int32_t> ends = special_tokens(config.data.train.front().path);
  if (ends.empty()) return;
  const auto num_examples = static_cast<std::int64_t>(store.lengths().size());
  const std::int64_t stride = std::max<std::int64_t>(1, num_examples / kNumSampled);
  Passages passages;
  for (std::int64_t e = 0; e < num_examples; e += stride) {
    passages.add(store.input_ids(e), store.loss_mask(e), ends);
  }
  const double ended = share(passages.num_ended, passages.num);
  if (passages.num == 0 || ended >= 0.5) return;
  warnings.push_back(
      {"end_of_turn",
       fmt::format("{} of {} learned passages (of a sample) end in no special token of the "
                   "tokenizer: a model does not learn to stop",
                   passages.num - passages.num_ended, passages.num),
       "The end-of-turn or end-of-text token must have a label: `packtrain inspect` shows where "
       "the mask ends."});
}

}  // namespace

std::vector<PlanWarning> plan_warnings(const Config& config, const DecoderConfig& decoder,
                                       const TokenStore& store, const PlanReport& report) {
  Warnings warnings;
  check_memory(config, report, warnings);
  check_host_memory(report.memory, warnings);
  check_rounding(config, report.memory, warnings);
  check_steps(config, report, warnings);
  check_decay(config, report, warnings);
  check_labels(store, report, warnings);
  check_ends(config, store, warnings);
  check_cuts(config, store, report, warnings);
  check_positions(config, decoder, store, warnings);
  check_batches(config, store, report, warnings);
  check_validation(report, warnings);
  return warnings;
}

std::string warnings_to_text(const std::vector<PlanWarning>& warnings) {
  std::string text;
  for (const PlanWarning& warning : warnings) {
    text += fmt::format("packtrain plan: warning: {}\n  {}\n", warning.what, warning.advice);
  }
  return text;
}

}  // namespace packtrain
