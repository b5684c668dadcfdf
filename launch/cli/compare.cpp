// packtrain compare: every strategy on the same data, from the same start. Runs as one process a
// rank under mpirun, or alone.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "framework/config/objective_settings.h"
#include "framework/config/strategy.h"
#include "framework/core/error.h"
#include "framework/core/file.h"
#include "framework/core/logging.h"
#include "framework/core/shell_word.h"
#include "launch/cli/arguments.h"
#include "launch/cli/in_world.h"
#include "launch/cli/output.h"
#include "launch/cli/program.h"
#include "launch/cli/sources.h"
#include "launch/cli/tools.h"
#include "training/comparison/comparison_runs.h"
#include "training/comparison/report.h"

namespace packtrain {
namespace {

constexpr const char* kPlotTool = "plot_compare.py";
constexpr std::uint64_t kMaxSeeds = 1000;

// All values of batch.strategy that need no file.
// A loss of groups refuses strategies whose rows cut examples.
std::vector<std::string> default_strategies(const Config& config) {
  std::vector<std::string> names;
  for (const StrategyTraits& strategy : kStrategyTraits) {
    const bool is_refused = strategy.has_rows && trains_groups(config.objective);
    if (!strategy.has_plan_file && !is_refused) names.emplace_back(strategy.name);
  }
  return names;
}

struct CompareArguments {
  ConfigArguments config;
  ComparisonOptions options;
  std::string strategies;
  std::string varied;
  std::string seeds = "1";
  bool as_json = false;

  void add_to(CLI::App& app) {
    config.add_to(app);
    CLI::Option* const of_strategies =
        app.add_option(
               "--strategies", strategies,
               "which, with commas (default: all but file; of groups those that keep examples "
               "whole)")
            ->type_name("NAME,...");
    app.add_option("--vary", varied,
                   "values of another key instead of strategies; differences are to the first one")
        ->type_name("KEY=VALUE,...")
        ->excludes(of_strategies);
    app.add_option("--seeds", seeds,
                   "runs a value: a number N for run.seed, run.seed + 1, ..., or seeds with commas")
        ->type_name("N or SEED,...");
    app.add_option("--out", options.output, "folder of runs and results (default run.output)")
        ->type_name("DIR");
    app.add_flag("--equal-tokens", options.equal_tokens,
                 "steps of fixed_length and multipack are as many rows of data.max_length as hold "
                 "the tokens of the others' steps, not batch.global_batch_size rows");
    app.add_option("--device-time", options.device_time_s,
                   "seconds of training steps to compare at (default: the least of any run)")
        ->check(positive_number());
    app.add_option("--target-loss", options.target_loss,
                   "validation loss: report seconds and joules until a run reaches it");
    app.add_flag("--json", as_json, "print one JSON object");
    app.footer(
        "Examples:\n"
        "  launch/packtrain-run -n 2 compare my.yaml --strategies padding,balanced --seeds 3\n"
        "  packtrain compare my.yaml --vary optimizer.learning_rate=1e-5,2e-5 --seeds 5\n"
        "  packtrain compare --plot DIR     draws DIR/compare.svg again");
  }

  void finish(const CLI::App& app, const Config& loaded) {
    options.config_path = config.path;
    options.overrides = config.overrides;
    options.varied.values =
        strategies.empty() ? default_strategies(loaded) : CLI::detail::split(strategies, ',');
    if (!varied.empty()) options.varied = parse_varied_key(varied);
    read_seeds(app);
  }

  void read_seeds(const CLI::App& app) {
    std::vector<std::uint64_t> numbers;
    for (const std::string& text : CLI::detail::split(seeds, ',')) {
      std::uint64_t number = 0;
      if (!CLI::detail::lexical_cast(text, number)) {
        reject_usage(app, fmt::format("--seeds: got '{}', wanted a number", text));
      }
      if (std::ranges::find(numbers, number) != numbers.end()) {
        reject_usage(app, fmt::format("--seeds: {} is given twice", number));
      }
      numbers.push_back(number);
    }
    if (numbers.size() > 1) {
      options.seeds = std::move(numbers);
      return;
    }
    if (numbers.front() < 1 || numbers.front() > kMaxSeeds) {
      reject_usage(app, fmt::format("--seeds: got {}, wanted 1 to {}", seeds, kMaxSeeds));
    }
    options.num_seeds = static_cast<int>(numbers.front());
  }
};

std::string results_folder(const std::vector<VariantRun>& runs) {
  return std::filesystem::path(runs.front().config.run.output).parent_path().string();
}

void write_results(const Comparison& comparison, const std::string& folder) {
  const auto write = [&folder](const char* name, const std::string& text) {
    write_text_atomically(folder + "/" + name, text, ErrorCategory::kConfig);
  };
  write("compare.csv", comparison_to_csv(comparison));
  write("compare.md", comparison_to_markdown(comparison));
  write("compare.json", comparison_to_json(comparison));
}

// Another program makes the plot last; the comparison is complete without it.
void draw(const std::string& folder) {
  const std::string failure = call_tool(kPlotTool, {folder});
  if (failure.empty()) return;
  log_warning(
      "{}/compare.svg was not drawn: {}. `packtrain compare --plot {}` draws it where there is a "
      "Python (PACKTRAIN_PYTHON)",
      folder, failure, shell_word(folder));
}

int run_plot(int argc, char** argv) {
  CLI::App app("Draws DIR/compare.svg from DIR/compare.json.", "packtrain compare");
  std::string folder;
  app.add_option("--plot", folder, "folder of a comparison")->required();
  if (!parse_arguments(app, argc, argv)) return 0;
  std::array<char*, 1> arguments = {folder.data()};
  run_tool(kPlotTool, arguments);
}

}  // namespace

int run_compare(int argc, char** argv) {
  if (has_option(argc, argv, "--plot")) return run_plot(argc, argv);
  std::string drawn;  // on rank 0, when there are results to draw
  const int exit_code = in_world([&](World& world) {
    CLI::App app(
        "Trains each strategy, or each value of another key, from the same start on the same "
        "data, one after the other. Prints speed, memory, steps, padding, utilisation, energy and "
        "losses: at the end, at equal optimizer steps and at equal device time. With several seeds "
        "it also prints paired differences. Started again, it continues where it stopped.",
        "packtrain compare");
    CompareArguments arguments;
    arguments.add_to(app);
    if (!parse_arguments(app, argc, argv)) return;
    const Config loaded = load_with_sources(arguments.config, &world);
    arguments.finish(app, loaded);
    start_logging(world.rank(), world.size(), "");
    const auto runs = plan_comparison(arguments.options, find_hosts(world));
    const auto comparison = run_comparison(runs, arguments.options, world);
    if (!comparison) return;
    drawn = results_folder(runs);
    write_results(*comparison, drawn);
    print_result(arguments.as_json ? comparison_to_json(*comparison)
                                   : comparison_to_text(*comparison));
  });
  if (!drawn.empty()) draw(drawn);
  return exit_code;
}

}  // namespace packtrain
