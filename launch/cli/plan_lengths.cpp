#include "launch/cli/plan_lengths.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>

#include "framework/config/resolve.h"
#include "framework/core/error.h"
#include "framework/core/file.h"
#include "launch/cli/arguments.h"
#include "launch/cli/output.h"
#include "launch/cli/plan_hosts.h"
#include "samplers/planner.h"
#include "training/plan/plan_source.h"
#include "training/plan/written_plan.h"

namespace packtrain {
namespace {

constexpr std::int64_t kHiddenSize = 4096;

struct LengthsArguments {
  std::string lengths;
  std::string output;
  std::vector<std::string> overrides;
  int num_ranks = 1;
  std::int64_t hidden_size = kHiddenSize;

  void add_to(CLI::App& app) {
    app.add_option("OVERRIDES", overrides, "section.key=value, over the defaults");
    app.add_option("--lengths", lengths, "text file: a number of tokens for each example")
        ->required()
        ->type_name("FILE");
    app.add_option("--write-plan", output, "the plan file to write")->required()->type_name("FILE");
    app.add_option("--ranks", num_ranks, "ranks to plan for (default 1)")
        ->check(CLI::Range(1, kMaxPlannedRanks));
    app.add_option("--hidden-size", hidden_size,
                   "hidden size H of the model: an example costs L + L^2 / (6 H) (default 4096)")
        ->check(CLI::PositiveNumber);
  }
};

std::vector<std::int32_t> read_lengths(const std::string& path) {
  const std::string text = read_text(path, ErrorCategory::kData);
  std::vector<std::int32_t> lengths;
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at < end;) {
    if (std::string_view(" \t\r\n").find(*at) != std::string_view::npos) {
      ++at;
      continue;
    }
    std::int32_t length = 0;
    const auto [after, fault] = std::from_chars(at, end, length);
    if (fault != std::errc() || length < 0) {
      throw Error(ErrorCategory::kData,
                  fmt::format("{}: number {}: got '{}', wanted a length from 0 to {}", path,
                              lengths.size() + 1, std::string(at, std::min(end, at + 12)),
                              std::numeric_limits<std::int32_t>::max()),
                  "Write one number of tokens a line.");
    }
    lengths.push_back(length);
    at = after;
  }
  return lengths;
}

// Every token but the first has a label.
class AllTokensCount final : public LossCounter {
 public:
  std::int64_t loss_tokens_before(std::int64_t, std::int32_t num_tokens) const override {
    return std::max(num_tokens - 1, 0);
  }
};

Config config_of(const LengthsArguments& arguments) {
  std::vector<Setting> settings;
  for (const std::string& text : arguments.overrides) settings.push_back(read_override(text));
  Config config = resolve_settings(settings);
  if (config.batch.max_tokens_per_micro_batch) return config;
  throw Error(ErrorCategory::kConfig,
              "batch.max_tokens_per_micro_batch is auto, and without a model no memory is known",
              "Give a number.");
}

}  // namespace

int run_plan_lengths(int argc, char** argv) {
  CLI::App app(
      "Plans examples of which only the lengths are known, and writes run.num_epochs epochs as a "
      "plan file for batch.strategy: file.",
      "packtrain plan");
  LengthsArguments arguments;
  arguments.add_to(app);
  if (!parse_arguments(app, argc, argv)) return 0;
  const Config config = config_of(arguments);
  const std::vector<std::int32_t> lengths = read_lengths(arguments.lengths);
  std::vector<std::int32_t> labels = lengths;
  for (std::int32_t& count : labels) count = std::max(count - 1, 0);
  PlanOptions options = plan_options(config, DecoderConfig{}, arguments.num_ranks,
                                     *config.batch.max_tokens_per_micro_batch);
  options.cost = utilization_cost(arguments.hidden_size);
  const AllTokensCount counter;
  const Planner planner(lengths, labels, counter, options);
  write_plan_file(planner, lengths, config.run.num_epochs, arguments.output);
  PlanSummaryOptions counting;
  counting.cost = counting.flops = options.cost;
  counting.max_tokens_per_micro_batch = options.max_tokens_per_micro_batch;
  counting.pad_to_longest = traits_of(options.strategy).pads_to_longest;
  PlanSummary summary(counting);
  const std::int64_t num_steps = planner.num_steps(config.run.num_epochs);
  for (std::int64_t step = 0; step < num_steps; ++step) summary.add(planner.plan(step));
  const nlohmann::ordered_json json = {{"num_steps", num_steps},
                                       {"num_micro_batches", summary.num_micro_batches()},
                                       {"fill", summary.fill()},
                                       {"cost_utilization", summary.cost_utilization()}};
  print_result(json.dump() + "\n");
  return 0;
}

}  // namespace packtrain
