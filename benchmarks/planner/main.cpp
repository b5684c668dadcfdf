// Times planning an epoch: planner_benchmark --help.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>

#include "benchmarks/guarded_main.h"
#include "benchmarks/planner/lengths.h"
#include "benchmarks/planner/longest_first.h"
#include "benchmarks/planner/measure.h"
#include "benchmarks/planner/start.h"
#include "benchmarks/planner/table.h"
#include "framework/config/schema.h"
#include "framework/core/error.h"
#include "framework/core/file.h"
#include "framework/core/random.h"
#include "samplers/planner.h"
#include "samplers/strategies/strategy.h"
#include "training/plan/plan_summary.h"

namespace packtrain {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kSurveyedSteps = 2000;
constexpr std::int64_t kHiddenSize = 4096;

struct Arguments {
  std::vector<std::string> distributions = {"flan", "orca"};
  std::vector<std::string> strategies = {"balanced", "padding_free"};
  std::int64_t num_examples = 10'000'000;
  std::vector<int> num_ranks = {8};
  std::int64_t global_batch_size = 64;
  std::int64_t micro_batch_size = 4;
  std::int64_t max_tokens = 0;
  std::int64_t examples_per_rank = 0;
  double micro_batches = 1;
  bool unequal_speeds = false;
  double most_ms = 0;
  std::uint64_t seed = 0;
  std::string write_lengths;
  std::string write_store;
  std::string store;
  bool hashes = false;
  bool as_json = false;
};

class NoLossCounter final : public LossCounter {
 public:
  std::int64_t loss_tokens_before(std::int64_t, std::int32_t num_tokens) const override {
    return num_tokens;  // this benchmark truncates nothing
  }
};

Strategy strategy_named(const std::string& name) {
  Config config;
  for (const Field& field : fields_of(config)) {
    if (field.name == "batch.strategy") field.read(read_override("batch.strategy=" + name));
  }
  return config.batch.strategy;
}

// Examples a step grow with the ranks. The budget gives about the requested number of
// micro-batches.
void scale_to_ranks(const Arguments& arguments, std::span<const std::int32_t> lengths,
                    PlanOptions& options) {
  const auto num_tokens = std::reduce(lengths.begin(), lengths.end(), std::int64_t{0});
  const double mean = static_cast<double>(num_tokens) / static_cast<double>(lengths.size());
  const double tokens_per_rank = mean * static_cast<double>(arguments.examples_per_rank);
  options.max_tokens_per_micro_batch = std::max<std::int64_t>(
      std::ranges::max(lengths), std::llround(tokens_per_rank / arguments.micro_batches));
  const auto step_tokens = std::llround(tokens_per_rank * options.num_ranks);
  if (traits_of(options.strategy).counts_tokens()) {
    options.global_batch_tokens =
        step_tokens / options.max_tokens_per_micro_batch * options.max_tokens_per_micro_batch;
  } else {
    options.global_batch_size = arguments.examples_per_rank * options.num_ranks;
  }
}

// Speeds differ about as much as those of a cluster's ranks: 1 +- 0.05.
std::vector<double> draw_speeds(std::uint64_t seed, int num_ranks) {
  const CounterRandom random(seed, "benchmark speeds");
  std::vector<double> speeds(static_cast<std::size_t>(num_ranks));
  for (std::size_t rank = 0; rank < speeds.size(); ++rank) {
    speeds[rank] = 0.95 + 0.1 * random.uniform(rank);
  }
  return speeds;
}

PlanOptions plan_options(const Arguments& arguments, const std::string& strategy, int num_ranks,
                         std::span<const std::int32_t> lengths) {
  const std::int32_t longest = std::ranges::max(lengths);
  PlanOptions options;
  options.strategy = strategy_named(strategy);
  options.max_length = longest;
  options.micro_batch_size = arguments.micro_batch_size;
  options.max_tokens_per_micro_batch =
      arguments.max_tokens > 0 ? arguments.max_tokens : arguments.micro_batch_size * longest;
  options.seed = arguments.seed;
  options.num_ranks = num_ranks;
  if (traits_of(options.strategy).has_rows) {  // a row is a full micro-batch
    options.max_length = options.max_tokens_per_micro_batch;
  }
  const bool by_tokens = traits_of(options.strategy).counts_tokens();
  options.global_batch_size = by_tokens ? 0 : arguments.global_batch_size;
  if (by_tokens) {  // a full micro-batch on each rank
    options.global_batch_tokens = options.num_ranks * options.max_tokens_per_micro_batch;
  }
  if (arguments.examples_per_rank > 0) scale_to_ranks(arguments, lengths, options);
  if (arguments.unequal_speeds) options.speeds = draw_speeds(arguments.seed, num_ranks);
  options.cost = utilization_cost(kHiddenSize);
  return options;
}

// Statistics of the plan, from steps spread over the epoch.
Json survey(const Planner& planner, std::int64_t num_steps) {
  PlanSummaryOptions options;
  options.cost = planner.options().cost;
  options.flops = options.cost;
  options.max_tokens_per_micro_batch = planner.options().max_tokens_per_micro_batch;
  options.pad_to_longest = traits_of(planner.options().strategy).pads_to_longest;
  PlanSummary survey(options);
  double longest_first = 0;
  const std::int64_t count = std::min(kSurveyedSteps, num_steps);
  for (std::int64_t i = 0; i < count; ++i) {
    const StepPlan plan = planner.plan(i * num_steps / count);
    survey.add(plan);
    longest_first += longest_first_utilization(plan, planner.options());
  }
  const auto steps = static_cast<double>(count);
  return {{"micro_batches_per_step", static_cast<double>(survey.num_micro_batches()) / steps},
          {"cost_utilization", survey.cost_utilization()},
          {"cost_bound", survey.cost_bound()},
          {"longest_first", longest_first / steps},
          {"fill", survey.fill()}};
}

Json run_case(const Arguments& arguments, const std::string& distribution,
              const std::string& strategy, int num_ranks, std::span<const std::int32_t> lengths) {
  const PlanOptions options = plan_options(arguments, strategy, num_ranks, lengths);
  const NoLossCounter counter;
  restart_peak_memory();
  const std::int64_t memory_before = resident_memory();
  const double wall_begin = wall_seconds();
  const double cpu_begin = cpu_seconds();

  const Planner planner(lengths, lengths, counter, options);  // every token has a label
  planner.plan(0);                                            // makes the order of the epoch
  const double cpu_order = cpu_seconds();
  const std::int64_t num_steps = planner.num_steps(1);
  std::int64_t num_examples = 0;
  for (std::int64_t step = 0; step < num_steps; ++step) {
    num_examples += planner.plan(step).num_examples;
  }

  const double cpu_end = cpu_seconds();
  const double wall_end = wall_seconds();
  const auto memory = static_cast<double>(peak_memory() - memory_before);
  const auto steps = static_cast<double>(num_steps);
  Json row = {{"distribution", distribution},
              {"strategy", strategy},
              {"num_examples", num_examples},
              {"num_ranks", options.num_ranks},
              {"max_tokens_per_micro_batch", options.max_tokens_per_micro_batch},
              {"num_steps", num_steps},
              {"wall_s", wall_end - wall_begin},
              {"cpu_s", cpu_end - cpu_begin},
              {"select_and_order_s", cpu_order - cpu_begin},
              {"us_per_step", (cpu_end - cpu_order) / steps * 1e6},
              {"bytes_per_example", memory / static_cast<double>(lengths.size())}};
  row.update(survey(planner, num_steps));
  return row;
}

void check_limit(const Arguments& arguments, const Json& row) {
  const double ms = row["us_per_step"].get<double>() / 1000;
  if (arguments.most_ms <= 0 || ms <= arguments.most_ms) return;
  throw Error(
      ErrorCategory::kInternal,
      fmt::format("a step took {:.1f} ms to plan, wanted {} at most", ms, arguments.most_ms));
}

void run(const Arguments& arguments) {
  if (!arguments.write_store.empty()) {
    return write_sparse_store(arguments.write_store, arguments.num_examples);
  }
  if (!arguments.store.empty()) {
    const int num_ranks = arguments.num_ranks.front();
    fmt::print("{}\n", time_start(arguments.store, num_ranks, arguments.hashes).dump());
    return;
  }
  if (!arguments.as_json) fmt::print("{}", table_head());
  for (const std::string& distribution : arguments.distributions) {
    const auto lengths = draw_lengths(
        distribution, static_cast<std::size_t>(arguments.num_examples), arguments.seed);
    if (!arguments.write_lengths.empty()) {
      OutputFile file(arguments.write_lengths + "." + distribution, OutputFile::Mode::kCreate,
                      ErrorCategory::kData);
      file.write(std::as_bytes(std::span(lengths)));
      file.close();
    }
    for (const std::string& strategy : arguments.strategies) {
      for (const int num_ranks : arguments.num_ranks) {
        const Json row = run_case(arguments, distribution, strategy, num_ranks, lengths);
        fmt::print("{}", arguments.as_json ? row.dump() + "\n" : table_row(row));
        std::fflush(stdout);
        check_limit(arguments, row);
      }
    }
  }
}

void add_options(CLI::App& app, Arguments& arguments) {
  app.add_option("--distributions", arguments.distributions,
                 fmt::format("of lengths: {}", fmt::join(distribution_names(), ", ")))
      ->delimiter(',');
  app.add_option("--strategies", arguments.strategies, "names of batch.strategy")->delimiter(',');
  app.add_option("--examples", arguments.num_examples)->check(CLI::PositiveNumber);
  app.add_option("--ranks", arguments.num_ranks)->delimiter(',')->check(CLI::PositiveNumber);
  app.add_option("--global-batch-size", arguments.global_batch_size, "examples a step");
  app.add_option("--micro-batch-size", arguments.micro_batch_size, "examples; padding_free");
  app.add_option("--max-tokens", arguments.max_tokens,
                 "budget of a micro-batch; 0: micro-batch size x longest example");
  app.add_option("--examples-per-rank", arguments.examples_per_rank,
                 "a step of so many on each rank, instead of --global-batch-size");
  app.add_option("--micro-batches", arguments.micro_batches,
                 "a budget of about so many; with --examples-per-rank")
      ->check(CLI::PositiveNumber);
  app.add_flag("--unequal-speeds", arguments.unequal_speeds, "ranks 5 % faster to 5 % slower");
  app.add_option("--most-ms", arguments.most_ms, "fail when planning a step takes longer");
  app.add_option("--seed", arguments.seed);
  app.add_option("--write-lengths", arguments.write_lengths,
                 "write the lengths to PATH.DISTRIBUTION, int32, for peers.py");
  app.add_option("--write-store", arguments.write_store,
                 "write a store of --examples drawn lengths, its tokens holes, and nothing else");
  app.add_option("--store", arguments.store, "open it and plan its first step, and nothing else");
  app.add_flag("--hash", arguments.hashes, "hash its lengths, too, as one rank of a host does");
  app.add_flag("--json", arguments.as_json, "one JSON object a case instead of a table");
}

int run_program(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("Plans an epoch and reports time, memory and what the plan is worth.");
  add_options(app, arguments);
  CLI11_PARSE(app, argc, argv);
  run(arguments);
  return 0;
}

}  // namespace
}  // namespace packtrain

int main(int argc, char** argv) {
  return packtrain::guarded_main("planner_benchmark", packtrain::run_program, argc, argv);
}
