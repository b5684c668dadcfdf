#include "training/verification/verification.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "collators/collator.h"
#include "framework/config/load.h"
#include "framework/config/objective_settings.h"
#include "framework/core/error.h"
#include "framework/core/logging.h"
#include "parallel/sharding/shard_groups.h"
#include "samplers/planner.h"
#include "training/guards/watchdog.h"
#include "training/plan/accumulation.h"
#include "training/plan/memory_plan.h"
#include "training/plan/plan_source.h"
#include "training/plan/shard_size.h"
#include "training/plan/shared_keys.h"
#include "training/plan/token_budget.h"
#include "training/setup/model_source.h"
#include "training/setup/shared_group_rows.h"
#include "training/setup/training_store.h"
#include "training/steps/rehearsal.h"
#include "training/verification/checks.h"
#include "training/verification/planted_reference.h"

namespace packtrain {
namespace {

constexpr std::int64_t kDefaultExamples = 16;
constexpr std::int64_t kDefaultExamplesPerRank = 2;  // packing needs several examples

// The configuration with smaller steps and no other change.
Config limit_examples(Config config, const TokenStore& store, const VerificationOptions& options,
                      int num_ranks) {
  BatchSection& batch = config.batch;
  const std::int64_t limit = options.num_examples.value_or(
      std::max(kDefaultExamples, kDefaultExamplesPerRank * num_ranks));
  const StrategyTraits& strategy = traits_of(batch.strategy);
  if (strategy.has_plan_file) return config;  // its steps are as they are
  if (batch.global_batch_size && !strategy.makes_own_steps) {
    batch.global_batch_size = std::min(*batch.global_batch_size, limit);
    return config;
  }
  // Steps counted in tokens hold as many examples of mean length, at least the longest example.
  // Steps of rows hold whole rows, at least one for each rank.
  const StoreInfo& info = store.info();
  const std::int64_t num_units = info.groups ? info.groups->num_groups : info.num_examples;
  const std::int64_t mean = info.num_tokens / std::max<std::int64_t>(num_units, 1) + 1;
  const std::int64_t row = config.data.max_length;
  const std::int64_t num_rows =
      std::max<std::int64_t>((limit * mean + row - 1) / row, strategy.has_rows ? num_ranks : 1);
  const std::int64_t whole =
      batch.global_batch_tokens.value_or(batch.global_batch_size.value_or(1) * row);
  batch.global_batch_tokens = std::min(whole, num_rows * row);
  batch.global_batch_size.reset();
  return config;
}

Collate collator_of(const BatchSection& batch) {
  const Collator collate = find_collator(batch.strategy);
  return [collate](const TokenStore& store, const MicroBatch& pieces,
                   const LossNormalization& normalization, const CollatorOptions& options) {
    return collate(store, pieces, normalization, options, {});
  };
}

std::vector<StepPlan> first_plans(const Config& config, const TokenStore& store,
                                  const PlanOptions& options, std::int64_t num_steps) {
  const Planner planner(store, options);
  const std::int64_t count = std::min(num_steps, planner.num_run_steps(config.run));
  std::vector<StepPlan> plans;
  for (std::int64_t step = 0; step < count; ++step) plans.push_back(planner.plan(step));
  return plans;
}

// The largest micro-batch, with the most keys of any.
MemoryLoad largest_load(const std::vector<VerifiedStep>& steps) {
  MemoryLoad load{.num_keys = 0, .several_micro_batches = true};
  for (const VerifiedStep& step : steps) {
    for (const PackedBatch* batch : step.all_packed()) {
      const BatchSizes sizes = sizes_of(*batch);
      load.num_rows = std::max(load.num_rows, sizes.num_rows);
      load.num_keys = std::max(*load.num_keys, sizes.num_keys);
    }
  }
  return load;
}

class Verification {
 public:
  Verification(const Config& config, World& world, const VerificationOptions& options)
      : world_(world),
        watchdog_(config.guard, "", world),
        store_(open_training_store(config)),
        config_(limit_examples(config, *store_, options, data_parallel_size(world))),
        source_(find_model(config_)) {
    check_vocabulary(store_->folder(), store_->info().vocab_size, source_.decoder);
    check_learned_positions(*store_, config_.data.max_length, source_.decoder);
    if (const auto size = config_.parallel.shard_size)
      check_shard_size(*size, data_parallel_size(world));
    device_ = choose_device(config_, world);
    share_training_group_rows(*store_, config_, world.control());
    set_keys_of_row(*store_, config_);
    config_.parallel.shard_size =
        choose_shard_size(config_, source_.decoder, *device_.device, world).num_ranks;
    mesh_ = make_process_mesh(world, *config_.parallel.shard_size);
    const TokenBudget budget = token_budget(config_, source_.decoder, *device_.device, world);
    auto plans = first_plans(config_, *store_,
                             plan_options(config_, source_.decoder, mesh_.data_parallel_size(),
                                          budget.tokens, store_->groups() != nullptr),
                             options.num_steps);
    const auto planned = [&](std::int64_t step) {
      return plans.at(static_cast<std::size_t>(step));
    };
    config_.parallel.accumulate =
        choose_accumulation({config_, source_.decoder, budget.tokens,
                             step_work(config_, store_.get(), mesh_.data_parallel_size()),
                             [&] { return count_micro_batches(planned, 0, std::ssize(plans)); }},
                            *device_.device, world)
            .accumulate;
    if (has_reference(config_.objective)) reference_ = std::make_unique<PlantedReference>(*store_);
    subject_ = std::make_unique<VerifiedModel>(
        config_, source_.decoder, *store_,
        options.collate ? options.collate : collator_of(config_.batch), mesh_.data_parallel_rank(),
        reference_.get());
    for (StepPlan& plan : plans) steps_.push_back(make_verified_step(*subject_, std::move(plan)));
    require_room();
  }

  VerificationReport run() {
    const std::vector<Measured> single_rank = check_alone();
    const int num_ranks = mesh_.data_parallel_size();
    if (num_ranks > 1) log_info("the same step on {} ranks", num_ranks);
    check_together(single_rank);
    return merged_report();
  }

  PrecisionReport precision() {
    return measure_precision(config_, source_, device_, steps_.front(), [this] { begin_part(0); });
  }

 private:
  // Every rank of a host holds the single-rank model at the same time. On CPUs they share its
  // memory.
  void require_room() const {
    const auto available = static_cast<std::int64_t>(device_.device->total_memory_bytes());
    const int sharers = device_.device->kind() == DeviceKind::kCpu ? world_.local_size() : 1;
    const MemoryPlanner planner(config_, source_.decoder, {device_.device->kind(), 1});
    const std::int64_t need = planner.plan(largest_load(steps_)).total() * sharers;
    if (available == 0 || need <= available) return;
    throw Error(
        ErrorCategory::kConfig,
        fmt::format("verify trains the whole model on each rank, which takes {:.1f} GB, and "
                    "{} has {:.1f} GB",
                    static_cast<double>(need) / 1e9, device_.device->name(),
                    static_cast<double>(available) / 1e9),
        "Verify the same configuration with fewer layers (model.config with a smaller "
        "num_hidden_layers), or on fewer CPU ranks; every layer runs the same code.");
  }

  // Runs all checks that one rank can do alone. Returns the packed steps measured on the
  // single-rank model.
  std::vector<Measured> check_alone() {
    log_info("examples one by one, then packed, on each rank alone");
    SingleRankModel single_rank(config_, source_, device_);
    const Device& device = *device_.device;
    std::vector<Measured> all_packed;
    for (const VerifiedStep& step : steps_) {
      begin_part(step.plan.step);
      const Measured alone = measure_step(single_rank.model(), device, step.all_separate());
      Measured packed = measure_step(single_rank.model(), device, step.all_packed());
      keep(0, step, check_packed(*subject_, step, packed, alone));
      begin_part(step.plan.step);
      keep(1, step, check_isolation(*subject_, step, single_rank.model(), device));
      keep(2, step, check_boundaries(*subject_, step));
      keep(3, step, check_attention(*subject_, step, *device_.device));
      all_packed.push_back(std::move(packed));
    }
    return all_packed;
  }

  void check_together(const std::vector<Measured>& single_rank) {
    const int num_ranks = mesh_.data_parallel_size();
    if (num_ranks == 1) return keep(4, steps_.front(), check_ranks(*subject_, {}, {}, 1));
    begin_part(steps_.front().plan.step);
    const auto model = make_sharded_model(config_, source_.decoder, device_, world_);
    load_weights(source_, config_.run.seed, *model, world_.control());
    const auto own = static_cast<std::size_t>(mesh_.data_parallel_rank());
    for (std::size_t s = 0; s < steps_.size(); ++s) {
      begin_part(steps_[s].plan.step);
      std::vector<const PackedBatch*> batches;
      for (const PackedBatch& batch : steps_[s].packed[own]) {
        batches.push_back(&batch);
      }
      Measured mine = measure_step(*model, *device_.device, batches);
      world_.control().all_reduce(&mine.loss, 1, DataType::kFloat64, ReduceOp::kSum, nullptr);
      keep(4, steps_[s], check_ranks(*subject_, mine, single_rank[s], num_ranks));
    }
  }

  void keep(std::size_t check, const VerifiedStep& step, CheckResult result) {
    if (steps_.size() > 1) {
      for (std::string& text : result.failures)
        text = fmt::format("step {}: {}", step.plan.step, text);
    }
    if (check == results_.size()) {
      results_.push_back(std::move(result));
    } else {
      results_[check].add(result);
    }
  }

  VerificationReport merged_report() const {
    VerificationReport report;
    report.strategy = config_value(config_, "batch.strategy");
    report.precision = config_value(config_, "precision.compute");
    report.num_ranks = mesh_.data_parallel_size();
    report.num_steps = static_cast<std::int64_t>(steps_.size());
    for (const VerifiedStep& step : steps_) {
      report.num_examples += step.plan.num_examples;
      report.num_micro_batches += step.plan.num_micro_batches();
    }
    for (const CheckResult& result : results_) {
      report.checks.push_back(merge_over_ranks(result, world_.control()));
    }
    return report;
  }

  // Each part of the checks has the time limit of an evaluation.
  void begin_part(std::int64_t step) { watchdog_.enter(RunPhase::kCheckpoint, step + 1); }

  World& world_;
  Watchdog watchdog_;  // during the constructor in the phase of the start
  std::unique_ptr<TokenStore> store_;
  Config config_;
  ModelSource source_;
  ProcessMesh mesh_;
  RunDevice device_;
  std::unique_ptr<PlantedReference> reference_;  // null: the loss has none
  std::unique_ptr<VerifiedModel> subject_;
  std::vector<VerifiedStep> steps_;
  std::vector<CheckResult> results_;  // of this rank
};

}  // namespace

VerificationReport run_verification(const Config& config, World& world,
                                    const VerificationOptions& options) {
  return Verification(config, world, options).run();
}

PrecisionReport run_precision_report(const Config& config, World& world,
                                     const VerificationOptions& options) {
  return Verification(config, world, options).precision();
}

}  // namespace packtrain
