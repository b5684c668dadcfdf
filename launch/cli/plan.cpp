// packtrain plan: shows what a run will do, without a device or weights, in one process.
#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdio>
#include <iterator>
#include <limits>
#include <utility>

#include "framework/config/adapters.h"
#include "framework/config/load.h"
#include "framework/config/sophia_settings.h"
#include "framework/core/clock.h"
#include "framework/data/group_format.h"
#include "framework/data/token_store.h"
#include "launch/cli/arguments.h"
#include "launch/cli/output.h"
#include "launch/cli/plan_course.h"
#include "launch/cli/plan_lengths.h"
#include "launch/cli/plan_memory.h"
#include "launch/cli/plan_report.h"
#include "launch/cli/plan_warnings.h"
#include "launch/cli/program.h"
#include "launch/cli/sources.h"
#include "samplers/planner.h"
#include "training/plan/accumulation.h"
#include "training/plan/adapter_plans.h"
#include "training/plan/plan_source.h"
#include "training/plan/shared_keys.h"
#include "training/plan/written_plan.h"
#include "training/setup/model_source.h"
#include "training/setup/store_kind.h"
#include "training/setup/tokenizer_check.h"
#include "training/setup/training_store.h"
#include "training/steps/router_bias_update.h"

namespace packtrain {
namespace {

constexpr std::int64_t kStepsShown = 3;  // number of steps whose loads are printed
constexpr std::int64_t kLongestGroup = std::numeric_limits<std::int32_t>::max();  // in rows

struct PlanArguments {
  ConfigArguments config;
  DeviceArguments devices;
  std::optional<std::int64_t> steps;
  std::int64_t first_step = 0;
  std::optional<double> tflops;
  bool memory_only = false;
  bool as_json = false;
  std::string write_plan;
};

// Bins of doubling width: 0, 1, 2-3, 4-7, ...
std::vector<LengthBin> length_bins(const ExampleCounts& lengths) {
  std::vector<LengthBin> bins;
  for (const std::int32_t length : lengths) {
    const auto bin = static_cast<std::size_t>(std::bit_width(static_cast<std::uint32_t>(length)));
    while (bins.size() <= bin) {
      const auto begin = bins.empty() ? 0 : std::int64_t{1} << (bins.size() - 1);
      const auto last = bins.empty() ? 0 : 2 * begin - 1;
      bins.push_back({static_cast<std::int32_t>(begin), static_cast<std::int32_t>(last), 0, 0});
    }
    ++bins[bin].num_examples;
    bins[bin].num_tokens += length;
  }
  const auto is_used = [](const LengthBin& bin) { return bin.num_examples > 0; };
  bins.erase(bins.begin(), std::find_if(bins.begin(), bins.end(), is_used));
  return bins;
}

// The stores of data.train. Those of an adapter count as one.
std::vector<StoreShare> store_shares(const TrainingStores& data) {
  std::vector<StoreShare> shares;
  const std::vector<StoreUse> uses = data.all->uses();
  for (std::size_t i = 0; i < uses.size(); ++i) {
    shares.push_back({uses[i], {}, {}});
    if (data.are_several()) continue;
    const TrainStore& given = data.configs.front().data.train[i];
    shares.back().wanted_share = given.share;
    shares.back().wanted_probability = given.probability;
  }
  return shares;
}

template <typename Visit>
void for_each_piece(const StepPlan& plan, Visit&& visit) {
  for (const std::vector<MicroBatch>& micro_batches : plan.ranks) {
    for (const MicroBatch& pieces : micro_batches) {
      for (const Piece& piece : pieces) visit(piece);
    }
  }
}

void count_pieces(const StepPlan& plan, std::vector<StoreShare>& stores) {
  for_each_piece(plan, [&](const Piece& piece) {
    const auto after = std::ranges::upper_bound(
        stores, piece.example, {}, [](const StoreShare& store) { return store.use.first_example; });
    StoreShare& store = *std::prev(after);
    store.num_examples += counts_example(piece) ? 1 : 0;
    store.num_tokens += piece.length;
  });
}

// Plans the first epoch, and more steps when requested: steps begin..end-1 are shown.
void plan_steps(const Planner& planner, const TokenStore& store, std::int64_t begin,
                std::int64_t end, const PlanSummaryOptions& survey, PlanReport& report) {
  const std::int64_t num_steps = std::max(planner.num_steps(1), end);
  for (std::int64_t step = 0; step < num_steps; ++step) {
    const auto started = std::chrono::steady_clock::now();
    StepPlan plan = planner.plan(step);
    report.planning_time_s += seconds_since(started);
    if (plan.epoch == 0) {
      report.survey.add(plan);
      count_pieces(plan, report.stores);
    }
    if (step < begin || step >= end) continue;
    for_each_piece(plan, [&](const Piece& piece) {
      const ExampleOrigin origin = store.origin(piece.example);
      report.shown_examples[piece.example] = {std::string(origin.store), origin.example};
    });
    report.loads.push_back(step_loads(plan, survey));
    report.steps.push_back(std::move(plan));
  }
}

std::vector<ValidationOverlap> overlaps_of(const TrainingStores& data) {
  std::vector<ValidationOverlap> overlaps;
  for (std::size_t i = 0; i < data.configs.size(); ++i) {
    for (const ValidationStore& validation : data.configs[i].data.validation) {
      const auto store = TokenStore::open(validation.path);
      check_store_kind(*store, data.configs[i].objective, "data.validation");
      auto overlap = find_overlap(data.of(i), validation.name, *store);
      if (overlap) overlaps.push_back(std::move(*overlap));
    }
  }
  return overlaps;
}

// The planner and its number of steps.
AdapterPlans plans_of(const TrainingStores& data, const PlanOptions& options,
                      const DecoderConfig& decoder) {
  const auto count = [](const Planner& planner, const RunSection& run) {
    return planner.num_run_steps(run);
  };
  if (data.are_several()) {
    return join_adapter_plans(options, decoder, {data.configs, data.own}, count);
  }
  AdapterPlans plans;
  plans.planner = std::make_unique<Planner>(*data.all, options);
  plans.num_steps = {count(*plans.planner, data.configs.front().run)};
  plans.losses = plans.planner->losses();
  return plans;
}

std::vector<PlannedAdapter> planned_adapters(const TrainingStores& data,
                                             const AdapterPlans& plans) {
  std::vector<PlannedAdapter> adapters;
  for (std::size_t a = 0; a < data.own.size(); ++a) {
    adapters.push_back(
        {data.configs[a].adapter.name, data.own[a]->info().num_examples, plans.num_steps[a]});
  }
  return adapters;
}

PlanReport make_report(const PlanArguments& arguments, Config config) {
  const TrainingStores data = open_training_stores(config);
  const TokenStore* const store = data.all.get();
  set_keys_of_row(*store, config);
  const DecoderConfig decoder = find_model(config).decoder;
  check_vocabulary(store->folder(), store->info().vocab_size, decoder);
  check_learned_positions(*store, config.data.max_length, decoder);
  check_router_bias_rate(config.optimizer.router_bias_update_rate, decoder);
  const Assumed assumed = assume(config, decoder, arguments.devices);
  FittedConfig fitted = fit_config(config, decoder, assumed, store);
  const PlanOptions options = plan_options(config, decoder, assumed.device.ranks.num_ranks,
                                           fitted.budget.tokens, store->groups() != nullptr);
  const PlanSummaryOptions survey = plan_summary_options(options, decoder);

  const auto begin = std::chrono::steady_clock::now();
  const AdapterPlans plans = plans_of(data, options, decoder);
  const Planner& planner = *plans.planner;
  if (!arguments.write_plan.empty()) {
    require_one_adapter(config, "`packtrain plan --write-plan`");
    write_plan_file(planner, store->lengths(), config.run.num_epochs, arguments.write_plan);
  }
  PlanReport report(survey);
  report.planning_time_s = seconds_since(begin);
  report.strategy = config.batch.strategy;
  report.batch_size_key =
      options.global_batch_tokens > 0 ? "batch.global_batch_tokens" : "batch.global_batch_size";
  report.num_steps = std::ranges::max(plans.num_steps);
  add_course(config, planner, report);
  report.losses = plans.losses;
  report.adapters = planned_adapters(data, plans);
  const std::int64_t num_shown = arguments.steps.value_or(arguments.as_json ? 0 : kStepsShown);
  const std::int64_t first = std::min(report.num_steps, arguments.first_step);
  report.stores = store_shares(data);
  plan_steps(planner, *store, first, std::min(report.num_steps, first + num_shown), survey, report);
  const auto planned = [&](std::int64_t step) { return planner.plan(step); };
  const auto count = [&] { return count_micro_batches(planned, 0, report.num_steps); };
  resolve_accumulation(config, decoder, assumed, store, count, fitted);
  report.memory = memory_forecast(
      fitted, decoder, assumed,
      {.num_rows = report.survey.max_rows_in_micro_batch(),
       .num_keys = report.survey.max_keys_in_micro_batch(),
       .several_micro_batches = report.survey.num_micro_batches() > report.survey.num_steps()},
      planned_host_load(*store, report.survey));
  report.training = training_of(config, planner, report);
  if (arguments.tflops) {
    report.step_time_s = report.survey.step_flops() / (*arguments.tflops * 1e12);
    *report.step_time_s *= 1 + hessian_compute_share(config.optimizer);
    *report.step_time_s += report.memory.host.state_copy_s;
  }
  if (store->info().groups) report.group_kind = name_of(store->info().groups->kind);
  report.lengths = length_bins(store->lengths());
  report.overlaps = overlaps_of(data);
  report.warnings = plan_warnings(data.configs.front(), decoder, *store, report);
  if (arguments.as_json) return report;
  if (!data.are_several() && report.survey.cost_utilization() < kTargetUtilization) {
    PlanOptions advised = options;  // the lengths of groups are not those that data.max_length cuts
    if (store->groups() != nullptr) advised.max_length = kLongestGroup;
    report.advice = advise(planner.unit_lengths(), advised, survey, kTargetUtilization);
  }
  return report;
}

}  // namespace

int run_plan(int argc, char** argv) {
  if (has_option(argc, argv, "--lengths")) return run_plan_lengths(argc, argv);
  CLI::App app(
      "Plans a run without a device or weights: steps, fill, balance, memory, and what would be "
      "left out. Counts are of one epoch, steps of the run; utilisation is the cost of all "
      "examples over what the slowest ranks take, cost L + L^2 / (6 hidden).",
      "packtrain plan");
  PlanArguments arguments;
  arguments.config.add_to(app);
  app.add_option("--ranks", arguments.devices.hosts.num_ranks, "ranks to plan for (default 1)")
      ->check(CLI::Range(1, kMaxPlannedRanks));
  app.add_option("--hosts", arguments.devices.hosts.num_hosts, "hosts that the ranks are on")
      ->check(CLI::Range(1, kMaxPlannedRanks));
  app.add_option("--ranks-per-node", arguments.devices.hosts.ranks_per_host,
                 "ranks on each host (default this machine's GPUs, without GPUs all ranks)")
      ->check(CLI::Range(1, kMaxPlannedRanks));
  app.add_flag("--json", arguments.as_json, "print one JSON object");
  app.add_option("--steps", arguments.steps,
                 "first steps to show: their assignment (--json) or rank loads (default 3)")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--first-step", arguments.first_step, "the first of them (default 0)")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--tflops", arguments.tflops,
                 "TFLOP/s a device sustains, measured: predicts the time of a step")
      ->check(positive_number());
  app.add_option("--gpu-gib", arguments.devices.gpu_gib,
                 "plan for GPUs of this much memory instead of this machine's devices")
      ->check(positive_number());
  app.add_option("--host-gib", arguments.devices.host_gib,
                 "plan for hosts with this much available memory instead of this host's")
      ->check(positive_number());
  app.add_option("--host-copy-gbs", arguments.devices.host_copy_gbs,
                 "GB/s of copies between host and GPU in both directions together, each way, as "
                 "`packtrain doctor` measures them (default 45): the time of memory.offload")
      ->check(positive_number());
  app.add_flag("--memory", arguments.memory_only,
               "only the memory of micro-batches of the token budget; reads no examples");
  app.add_option("--write-plan", arguments.write_plan,
                 "also write the run's epochs as a plan file (batch.strategy: file)")
      ->type_name("FILE");
  app.footer(
      "Examples:\n"
      "  packtrain plan my.yaml --ranks 8\n"
      "  packtrain plan my.yaml --memory --hosts 2 --ranks-per-node 8 --gpu-gib 79.1\n"
      "                                                    will it fit there, without data?\n"
      "  packtrain plan --lengths FILE --help              plans from lengths alone");
  if (!parse_arguments(app, argc, argv)) return 0;
  if (arguments.memory_only) {
    const Config config = load_with_model(arguments.config);
    const MemoryForecast memory = longest_memory_forecast(config, arguments.devices);
    print_result(arguments.as_json ? memory_to_json(memory) : memory_to_text(memory));
    return 0;
  }
  const Config config = load_with_sources(arguments.config, nullptr);
  check_for_training(config);
  check_tokenizers(config);
  PlanReport report = make_report(arguments, config);
  for (UnreadKey& key : arguments.config.unread) {
    report.warnings.push_back({key.kind, std::move(key.what), std::move(key.advice)});
  }
  print_result(arguments.as_json ? plan_to_json(report, arguments.steps.has_value())
                                 : plan_to_text(report));
  if (!arguments.as_json) std::fputs(warnings_to_text(report.warnings).c_str(), stderr);
  return 0;
}

}  // namespace packtrain
