// Fixed work on the CPU whose instructions are counted: instruction_benchmark --help.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "benchmarks/guarded_main.h"
#include "benchmarks/planner/lengths.h"
#include "collators/flattening.h"
#include "collators/padding.h"
#include "framework/core/error.h"
#include "samplers/planner.h"
#include "samplers/strategies/strategy.h"
#include "tests/samplers/memory_store.h"

namespace packtrain {
namespace {

constexpr std::size_t kPlannedExamples = 20'000;
constexpr std::int64_t kPlannedEpochs = 3;
constexpr std::size_t kCollatedExamples = 512;
constexpr std::size_t kExamplesOfABatch = 16;
constexpr int kCollations = 4;  // of all examples

class NoLossCounter final : public LossCounter {
 public:
  std::int64_t loss_tokens_before(std::int64_t, std::int32_t num_tokens) const override {
    return num_tokens;  // no example is truncated
  }
};

// Epochs of 8 ranks. Returns the tokens of all steps.
std::int64_t plan_epochs(Strategy strategy) {
  const auto lengths = draw_lengths("flan", kPlannedExamples, 0);
  PlanOptions options;
  options.strategy = strategy;
  options.max_length = std::ranges::max(lengths);
  options.max_tokens_per_micro_batch = 4 * options.max_length;
  options.num_ranks = 8;
  options.cost = {.linear = 1.0, .quadratic = 1.0 / 24576};
  if (traits_of(strategy).makes_own_steps) {
    options.global_batch_size = 0;
    options.global_batch_tokens = options.num_ranks * options.max_tokens_per_micro_batch;
  }
  const NoLossCounter counter;
  const Planner planner(lengths, lengths, counter, options);
  const std::int64_t num_steps = planner.num_steps(kPlannedEpochs);
  std::int64_t num_tokens = 0;
  for (std::int64_t step = 0; step < num_steps; ++step) {
    num_tokens += planner.plan(step).num_tokens;
  }
  return num_tokens;
}

test::MemoryStore make_store() {
  std::vector<test::MemoryExample> examples;
  for (const std::int32_t length : draw_lengths("flan", kCollatedExamples, 1)) {
    test::MemoryExample example;
    example.input_ids.resize(static_cast<std::size_t>(length));
    std::iota(example.input_ids.begin(), example.input_ids.end(), 0);
    // The first half is a prompt.
    example.loss_mask.resize(example.input_ids.size(), 0);
    std::fill(example.loss_mask.begin() + length / 2, example.loss_mask.end(), 1);
    examples.push_back(std::move(example));
  }
  return test::MemoryStore(std::move(examples));
}

// Returns the rows of all batches.
template <typename Collate>
std::int64_t collate_all(Collate collate) {
  const test::MemoryStore store = make_store();
  std::int64_t num_rows = 0;
  for (int repeat = 0; repeat < kCollations; ++repeat) {
    for (std::size_t first = 0; first < kCollatedExamples; first += kExamplesOfABatch) {
      MicroBatch pieces;
      for (std::size_t example = first; example < first + kExamplesOfABatch; ++example) {
        pieces.push_back({.example = static_cast<std::int64_t>(example),
                          .begin = 0,
                          .length = store.lengths()[example]});
      }
      num_rows += static_cast<std::int64_t>(collate(store, pieces).input_ids.size());
    }
  }
  return num_rows;
}

std::int64_t flatten_all() {
  return collate_all(
      [](const TokenStore& store, const MicroBatch& pieces) { return flatten(store, pieces, {}); });
}

std::int64_t pad_all() {
  return collate_all([](const TokenStore& store, const MicroBatch& pieces) {
    return pad_to_longest(store, pieces, {});
  });
}

struct Case {
  const char* name;
  std::int64_t (*run)();
};

constexpr std::array kCases = {
    Case{"plan_padding_free", [] { return plan_epochs(Strategy::kPaddingFree); }},
    Case{"plan_balanced", [] { return plan_epochs(Strategy::kBalanced); }},
    Case{"plan_multipack", [] { return plan_epochs(Strategy::kMultipack); }},
    Case{"plan_fixed_length", [] { return plan_epochs(Strategy::kFixedLength); }},
    Case{"collate_flat", flatten_all},
    Case{"collate_padded", pad_all},
};

int run_program(int argc, char** argv) {
  std::vector<std::string> names;
  for (const Case& each : kCases) names.emplace_back(each.name);
  std::string chosen;
  CLI::App app(
      "Does the fixed work of one case, whose instructions benchmarks/instructions/gate counts.");
  app.add_option("CASE", chosen, "without one: print the cases and the compiler as JSON")
      ->check(CLI::IsMember(names));
  CLI11_PARSE(app, argc, argv);
  if (chosen.empty()) {
    const nlohmann::ordered_json listed = {{"compiler", fmt::format("GNU {}", __GNUC__)},
                                           {"cases", names}};
    fmt::print("{}\n", listed.dump());
    return 0;
  }
  const auto* found = std::ranges::find(kCases, chosen, &Case::name);
  fmt::print("{}\n", found->run());
  return 0;
}

}  // namespace
}  // namespace packtrain

int main(int argc, char** argv) {
  return packtrain::guarded_main("instruction_benchmark", packtrain::run_program, argc, argv);
}
