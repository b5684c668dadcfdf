#include "training/comparison/comparison_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "framework/config/adapters.h"
#include "framework/config/load.h"
#include "framework/core/error.h"
#include "framework/core/file.h"
#include "framework/core/logging.h"
#include "framework/data/token_store.h"
#include "parallel/communicators/collectives.h"
#include "samplers/planner.h"
#include "training/checkpoint/checkpoint.h"
#include "training/comparison/energy_log.h"
#include "training/loop/run.h"
#include "training/plan/plan_source.h"
#include "training/plan/plan_summary.h"
#include "training/plan/shared_keys.h"
#include "training/plan/token_budget.h"
#include "training/saving/run_folder.h"
#include "training/setup/model_source.h"
#include "training/setup/training_store.h"

namespace packtrain {
namespace {

constexpr std::int64_t kEvaluations = 10;  // of the shortest run, if the user set none

struct Surveyed {
  std::int64_t num_steps = 0;
  double cost_utilization = 1;
  double tokens_per_step = 0;
};

// Packs and the number of steps depend on the budget, so every rank must find the same one.
void require_common_budget(const Config& config) {
  const bool is_common =
      config.batch.max_tokens_per_micro_batch.has_value() || config.memory.limit_gib.has_value();
  if (is_common || !traits_of(config.batch.strategy).has_packs) return;
  throw Error(ErrorCategory::kConfig,
              "batch.max_tokens_per_micro_batch is auto: the packs of multipack, and with them the "
              "steps to compare at, would be what the memory of the moment makes them",
              "Set memory.limit_gib, or batch.max_tokens_per_micro_batch itself.");
}

// Plans the first epoch. Throws the errors that training would throw before its first step.
Surveyed survey(Config config, const RankHosts& hosts) {
  const auto store = open_training_store(config);
  set_keys_of_row(*store, config);
  const DecoderConfig decoder = find_model(config).decoder;
  check_vocabulary(store->folder(), store->info().vocab_size, decoder);
  check_learned_positions(*store, config.data.max_length, decoder);
  require_common_budget(config);
  const TokenBudget budget =
      assumed_token_budget(config, decoder, assume_device(config, decoder, hosts));
  const PlanOptions options =
      plan_options(config, decoder, hosts.num_ranks, budget.tokens, store->groups() != nullptr);
  const Planner planner(*store, options);
  PlanSummary figures(plan_summary_options(options, decoder));
  const std::int64_t num_first = planner.num_steps(1, config.run.max_steps);
  for (std::int64_t step = 0; step < num_first; ++step) figures.add(planner.plan(step));
  return {planner.num_run_steps(config.run), figures.cost_utilization(),
          static_cast<double>(figures.num_tokens()) / static_cast<double>(num_first)};
}

// Commands and followers of runs would take part in the speeds.
Config load_with(const ComparisonOptions& options, std::vector<std::string> more) {
  std::vector<std::string> overrides = options.overrides;
  overrides.insert(overrides.end(), more.begin(), more.end());
  overrides.insert(overrides.end(),
                   {"checkpoint.after_save=[]", "run.evaluate_command=[]", "metrics.report_to=[]"});
  return load_config(options.config_path, overrides);
}

// The configuration of one value, without seed and folder.
Config variant_config(const ComparisonOptions& options, const std::string& value,
                      const RankHosts& hosts) {
  const std::string chosen = options.varied.override_with(value);
  Config config = load_with(options, {chosen});
  const bool in_tokens = traits_of(config.batch.strategy).counts_tokens();
  if (!options.equal_tokens || !in_tokens || !config.batch.global_batch_size) return config;
  const Config whole = load_with(
      options, {chosen, std::string("batch.strategy=") + traits_of(kDefaultStrategy).name});
  const double rows =
      survey(whole, hosts).tokens_per_step / static_cast<double>(config.data.max_length);
  const auto tokens = std::max(1LL, std::llround(rows)) * config.data.max_length;
  return load_with(options, {chosen, "batch.global_batch_size=null",
                             fmt::format("batch.global_batch_tokens={}", tokens)});
}

// "strategy balanced", or "optimizer.learning_rate 1e-5".
std::string label_of(const VariedKey& varied, const std::string& value) {
  return (varied.is_strategy() ? "strategy" : varied.key) + " " + value;
}

// Adds the name of a variant to errors of `plan`.
template <class Plan>
auto naming(const std::string& label, const Plan& plan) {
  try {
    return plan();
  } catch (const Error& error) {
    throw Error(error.category(), fmt::format("{}: {}", label, error.message()), error.advice());
  }
}

void set_evaluations(std::vector<VariantRun>& runs) {
  const auto shortest = std::ranges::min_element(runs, {}, &VariantRun::num_steps);
  const std::int64_t every = std::max<std::int64_t>(1, shortest->num_steps / kEvaluations);
  for (VariantRun& run : runs) {
    const bool wanted =
        !run.config.data.validation.empty() && run.config.run.evaluate_steps.is_never();
    if (wanted) run.config.run.evaluate_steps = every;
  }
}

// A run that exists in the folder is continued, or used if finished, only when it is the same run.
void check_folder(const VariantRun& run, const VariedKey& varied, int num_ranks) {
  const std::string& folder = run.config.run.output;
  const std::string path = folder + "/config.yaml";
  const char* const advice = "Give another folder with --out, or remove this one.";
  if (!std::filesystem::exists(path)) return;
  if (read_text(path, ErrorCategory::kConfig) != dump_config(run.config)) {
    throw Error(ErrorCategory::kConfig,
                fmt::format("{} holds a run with other settings than {} has now", path,
                            label_of(varied, run.variant)),
                advice);
  }
  const auto newest = find_latest_checkpoint(checkpoints_folder(run.config.run.output));
  if (!newest) return;
  const std::int64_t ranks = read_checkpoint_state(*newest).num_ranks;
  if (ranks == num_ranks) return;
  throw Error(ErrorCategory::kConfig,
              fmt::format("{} holds a run of {} ranks, this job has {}: their speeds would not "
                          "compare",
                          folder, ranks, num_ranks),
              advice);
}

// `k`: number of the seed.
VariantRun plan_run(const ComparisonOptions& options, const std::string& value, std::int64_t k,
                    const RankHosts& hosts) {
  VariantRun run;
  run.variant = value;
  run.config = variant_config(options, value, hosts);
  check_for_training(run.config);
  require_one_adapter(run.config, "`packtrain compare`");
  const auto offset = static_cast<std::uint64_t>(k);
  run.seed = options.seeds.empty() ? run.config.run.seed + offset : options.seeds[offset];
  run.config.run.seed = run.seed;
  const std::string& root = options.output.empty() ? run.config.run.output : options.output;
  run.config.run.output =
      fmt::format("{}/{}-seed-{}", root, options.varied.folder_of(value), run.seed);
  const Surveyed surveyed = survey(run.config, hosts);
  run.num_steps = surveyed.num_steps;
  run.cost_utilization = surveyed.cost_utilization;
  return run;
}

// Rank 0 looks: of all ranks each would read the files of every run.
void check_folders(const std::vector<VariantRun>& runs, const VariedKey& varied, World& world) {
  run_on_first_rank(world.control(), [&] {
    for (const VariantRun& run : runs) check_folder(run, varied, world.size());
    return std::string();
  });
}

// Rank 0 decides, so that all ranks skip the same runs.
bool is_finished(const VariantRun& run, World& world) {
  const std::string steps_done = run_on_first_rank(world.control(), [&] {
    const auto newest = find_latest_checkpoint(checkpoints_folder(run.config.run.output));
    return std::to_string(newest ? read_checkpoint_state(*newest).step : 0);
  });
  return steps_done == std::to_string(run.num_steps);
}

}  // namespace

std::vector<VariantRun> plan_comparison(const ComparisonOptions& options, const RankHosts& hosts) {
  std::vector<VariantRun> runs;
  const std::int64_t num_seeds =
      options.seeds.empty() ? options.num_seeds : std::ssize(options.seeds);
  for (std::int64_t k = 0; k < num_seeds; ++k) {
    for (const std::string& value : options.varied.values) {
      naming(label_of(options.varied, value),
             [&] { runs.push_back(plan_run(options, value, k, hosts)); });
    }
  }
  set_evaluations(runs);
  return runs;
}

std::optional<Comparison> run_comparison(const std::vector<VariantRun>& runs,
                                         const ComparisonOptions& options, World& world) {
  check_folders(runs, options.varied, world);
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const VariantRun& run = runs[r];
    const std::string& folder = run.config.run.output;
    const bool finished = is_finished(run, world);
    start_logging(world.rank(), world.size(),
                  fmt::format("{}/log/rank-{}.log", folder, world.rank()));
    log_info("run {} of {}: {}, seed {}, {} steps{}", r + 1, runs.size(),
             label_of(options.varied, run.variant), run.seed, run.num_steps,
             finished ? ": finished before" : "");
    if (finished) continue;
    const EnergyLog energy(folder, world.rank(), make_rank_meter(run.config, world));
    run_training(run.config, world);
  }
  if (world.rank() != 0) return std::nullopt;
  std::vector<ComparedRun> compared;
  for (const VariantRun& run : runs) {
    const std::string& folder = run.config.run.output;
    compared.push_back({run.variant, run.seed, folder, run.cost_utilization, read_history(folder),
                        read_energy(folder, world.size())});
  }
  return compare_runs(std::move(compared), world.size(),
                      {options.varied.key, options.device_time_s, options.target_loss});
}

}  // namespace packtrain
