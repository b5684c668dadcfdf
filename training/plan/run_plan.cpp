#include "training/plan/run_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "collators/collator.h"
#include "framework/core/error.h"
#include "framework/core/logging.h"
#include "parallel/communicators/collectives.h"
#include "samplers/plan_file/plan_file.h"
#include "training/plan/accumulation.h"
#include "training/plan/plan_continuation.h"
#include "training/plan/plan_source.h"
#include "training/plan/run_memory.h"
#include "training/plan/shard_size.h"
#include "training/plan/shared_keys.h"
#include "training/plan/step_count.h"
#include "training/setup/shared_group_rows.h"
#include "training/setup/training_store.h"

namespace packtrain {
namespace {

// `auto` keeps the groups of the checkpoint when the number of ranks is the same.
int kept_shard_size(const PlanHeader& header, int num_ranks) {
  if (header.entries.empty() || header.entries.back().num_ranks != num_ranks) return 0;
  return header.entries.back().shard_size;
}

// `auto` keeps what the checkpoint had when the number of ranks is the same.
std::optional<Accumulate> kept_accumulate(const std::optional<ResumePoint>& resumed,
                                          int num_ranks) {
  if (!resumed || resumed->header.entries.empty()) return std::nullopt;
  const PlanEntry& newest = resumed->header.entries.back();
  return newest.num_ranks == num_ranks ? std::optional(newest.accumulate) : std::nullopt;
}

// The most rows of a micro-batch with several sequences, or groups. Another layout can make only
// these smaller.
std::int64_t largest_divisible(const StepPlan& plan, bool pad_to_longest) {
  std::int64_t largest = 0;
  for (const auto& micro_batches : plan.ranks) {
    for (const MicroBatch& pieces : micro_batches) {
      std::int64_t num_units = 0;
      std::int64_t num_sequences = 0;
      std::int64_t num_tokens = 0;
      std::int64_t longest = 0;
      for_each_unit(pieces, [&](std::span<const Piece>) { ++num_units; });
      for_each_segment(pieces, [&](std::span<const Piece>, const AttentionSegment& segment) {
        ++num_sequences;
        num_tokens += segment.rows.size();
        longest = std::max(longest, segment.rows.size());
      });
      if (num_units < 2) continue;
      largest = std::max(largest, pad_to_longest ? num_sequences * longest : num_tokens);
    }
  }
  return largest;
}

// All ranks read the file of batch.strategy: file. Each throws the error of one that cannot.
PlanOptions agreed_plan_options(const Config& config, const DecoderConfig& decoder, int num_ranks,
                                std::int64_t max_tokens, bool has_groups, World& world) {
  std::optional<PlanOptions> options;
  std::optional<Error> failure;
  try {
    options = plan_options(config, decoder, num_ranks, max_tokens, has_groups);
  } catch (const Error& error) {
    failure = error;
  }
  throw_first_rank_error(failure, world.control());
  return options.value();
}

// Each rank plans for all.
void require_same_plan_file(const PlanOptions& options, World& world) {
  if (options.plan_file == nullptr) return;
  const std::string& digest = options.plan_file->digest();
  const std::string first = broadcast_text(digest, 0, world.control());
  const std::string first_host = broadcast_text(world.host(), 0, world.control());
  std::optional<Error> failure;
  if (digest != first) {
    failure = Error(ErrorCategory::kData,
                    fmt::format("{} on host {} has digest {}, on host {} {}: these are different "
                                "plans",
                                options.plan_file->path(), world.host(), digest, first_host, first),
                    "Give all hosts the same file.");
  }
  throw_first_rank_error(failure, world.control());
}

// A plan file has no other way through the rest of an epoch.
bool is_of_file(const PlanSettings& settings) {
  return std::ranges::any_of(
      settings, [](const auto& setting) { return setting.first == "batch.plan_file"; });
}

// The rest of an epoch is not computed for several adapters, and not for plan files.
void require_same_batches(const ResumePoint& resumed, const PlanSettings& settings) {
  const std::vector<SettingChange> changes = changes_of(resumed.header.settings, settings);
  if (changes.empty()) return;
  throw Error(
      ErrorCategory::kCheckpoint,
      fmt::format("{} was saved with other settings: {}: {}, this run has {}", resumed.folder,
                  changes.front().key, changes.front().saved, changes.front().present),
      "A run of several adapters, or with a plan file, continues with the same batches: restore "
      "the setting, or give this run its own run.output.");
}

}  // namespace

RunPlan::RunPlan(const Config& config, const DecoderConfig& decoder, const TokenStore& store,
                 const std::optional<ResumePoint>& resumed, const Device& device, World& world,
                 const AdapterStores& adapters)
    : config_(config), first_step_(resumed ? resumed->step : 0) {
  const std::string fingerprint =
      share_fingerprint(store, world.local_rank(), world.host(), world.control());
  share_training_group_rows(store, config, world.control());
  for (const auto& own : adapters.stores) share_training_group_rows(*own, config, world.control());
  set_keys_of_row(store, config_);
  const int kept = resumed ? kept_shard_size(resumed->header, data_parallel_size(world)) : 0;
  const FoundShardSize found = choose_shard_size(config_, decoder, device, world, kept);
  config_.parallel.shard_size = found.num_ranks;
  mesh_ = make_process_mesh(world, found.num_ranks);
  const int num_ranks = mesh_.data_parallel_size();
  const RunMemory memory = choose_run_memory(config_, decoder, store, resumed, device, world);
  PlanOptions options = agreed_plan_options(config, decoder, num_ranks, memory.max_tokens,
                                            store.groups() != nullptr, world);
  require_same_plan_file(options, world);
  const PlanSettings settings = plan_settings(config, options, fingerprint, store.content_digest());
  if (resumed) {
    header_.entries = resumed->header.entries;
    header_.order_version = resumed->header.order_version;
  }
  options.order_version = header_.order_version;
  header_.settings = settings;
  continuation_ = std::make_unique<Continuation>();
  if (resumed) {
    const bool keeps_batches =
        !adapters.stores.empty() || is_of_file(settings) || is_of_file(resumed->header.settings);
    if (keeps_batches) require_same_batches(*resumed, settings);
    *continuation_ = continue_plan(*resumed, settings, store);
    add_continuation(*resumed, *continuation_, header_);
  }
  if (adapters.stores.empty()) {
    make_planner(options, store, world);
  } else {
    AdapterPlans joined = join_adapter_plans(
        options, decoder, adapters, [&](const Planner& planner, const RunSection& run) {
          return count_run_steps(planner, run, world.control());
        });
    planner_ = std::move(joined.planner);
    num_steps_ = std::move(joined.num_steps);
    total_steps_ = std::ranges::max(num_steps_);
  }
  if (continuation_->is_new) {
    header_.schedule_position = schedule_position(continuation_->start, config.run, total_steps_);
  }
  PlanEntry entry{{first_step_, options.max_tokens_per_micro_batch, options.cost, {}},
                  num_ranks,
                  CostSource::kFlops};
  if (found.by_memory) entry.shard_size = found.num_ranks;
  entry.fitted = memory.fitted;
  if (config.batch.cost == CostSource::kMeasured && !header_.entries.empty()) {
    const PlanEntry& newest = header_.entries.back();
    const bool is_known =
        newest.cost_source == CostSource::kMeasured && newest.num_ranks == num_ranks;
    if (is_known) {
      entry.layout.cost = newest.layout.cost;
      entry.layout.speeds = newest.layout.speeds;
      entry.cost_source = CostSource::kMeasured;
    }
  }
  keep_lowered_budget(entry);
  const std::optional<Accumulate> kept_way = kept_accumulate(resumed, num_ranks);
  entry.accumulate = kept_way.value_or(Accumulate::kShard);
  begin(std::move(entry));
  choose_accumulate(decoder, store, kept_way, device, world);
}

RunPlan::~RunPlan() = default;

// Needs the planner: the memory is spent only where steps have several micro-batches.
void RunPlan::choose_accumulate(const DecoderConfig& decoder, const TokenStore& store,
                                std::optional<Accumulate> kept, const Device& device,
                                World& world) {
  const auto plan = [this](std::int64_t step) { return planner_->plan(step); };
  const auto count = [&] { return count_micro_batches(plan, first_step_, total_steps_); };
  PlanEntry entry = header_.entries.back();
  AccumulationChoice choice = choose_accumulation(
      {config_, decoder, first_budget(), step_work(config_, &store, mesh_.data_parallel_size()),
       count, entry.fitted, kept},
      device, world);
  entry.layout.from_step = first_step_;
  entry.accumulate = choice.accumulate;
  entry.fitted = std::move(choice.fitted);
  begin(std::move(entry));
}

void RunPlan::make_planner(const PlanOptions& options, const TokenStore& store, World& world) {
  planner_ = std::make_unique<Planner>(store, options, continuation_->start);
  total_steps_ = count_run_steps(*planner_, config_.run, world.control());
  num_steps_ = {total_steps_};
}

// A newly configured budget holds from its step on. An unchanged one stays lowered.
void RunPlan::keep_lowered_budget(PlanEntry& entry) const {
  if (header_.entries.empty()) return;
  const PlanEntry& newest = header_.entries.back();
  if (newest.lowered_from != entry.layout.max_tokens_per_micro_batch) return;
  entry.lowered_from = newest.lowered_from;
  entry.layout.max_tokens_per_micro_batch = newest.layout.max_tokens_per_micro_batch;
  log_info("{} tokens a micro-batch instead of {}: memory ran out before",
           newest.layout.max_tokens_per_micro_batch, newest.lowered_from);
}

Config RunPlan::resolve(Config config) const {
  const PlanEntry& entry = header_.entries.back();
  config.parallel.shard_size = mesh_.shard.size;
  config.batch.keys_of_row = config_.batch.keys_of_row;
  if (config.parallel.accumulate != Accumulate::kShard)
    config.parallel.accumulate = entry.accumulate;
  std::optional<RecomputeByLayer>& recompute = config.memory.recompute;
  if (entry.fitted) recompute = entry.fitted->recompute;
  // Memory ran out before: smaller micro-batches have to need less of it.
  if (entry.lowered_from > 0 && recompute) recompute->num_rows = 0;
  if (!entry.fitted) return config;
  config.parallel.gather_slots = entry.fitted->gather_slots;
  config.memory.offload = entry.fitted->offload;
  if (config.batch.max_tokens_per_micro_batch) {
    config.batch.max_tokens_per_micro_batch = entry.first_budget();
  }
  return config;
}

std::int64_t RunPlan::lower_budget(std::int64_t step, const StepPlan& mismatched) {
  PlanEntry entry = header_.entries.back();
  std::int64_t& budget = entry.layout.max_tokens_per_micro_batch;
  entry.lowered_from = entry.first_budget();
  const bool pads = traits_of(planner_->options().strategy).pads_to_longest;
  std::int64_t largest = largest_divisible(planner_->plan(step), pads);
  if (largest == 0) largest = largest_divisible(mismatched, /*pad_to_longest=*/false);
  largest = std::min(budget, largest);
  const std::int64_t multiple = CollatorOptions{}.row_multiple;
  budget = std::max<std::int64_t>(1, largest - (largest + 3) / 4);
  if (budget > multiple) budget -= budget % multiple;
  entry.layout.from_step = step;
  begin(std::move(entry));
  return layout().max_tokens_per_micro_batch;
}

void RunPlan::begin(PlanEntry entry) {
  header_.begin(std::move(entry));
  planner_->set_layouts(header_.layouts(header_.entries.back().num_ranks));
}

bool RunPlan::wants_measured_cost() const {
  return config_.batch.cost == CostSource::kMeasured &&
         header_.entries.back().cost_source != CostSource::kMeasured;
}

void RunPlan::set_measured_cost(const CostModel& cost, std::vector<double> speeds) {
  PlanEntry entry = header_.entries.back();
  entry.layout.from_step = first_step_;
  entry.layout.cost = cost;
  entry.layout.speeds = std::move(speeds);
  entry.cost_source = CostSource::kMeasured;
  begin(std::move(entry));
}

}  // namespace packtrain
