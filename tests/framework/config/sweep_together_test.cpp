// Runs of a sweep that train together: which are joined, their names, and what is refused.
#include "framework/config/sweep_together.h"

#include <gtest/gtest.h>

#include <set>

#include "framework/config/adapters.h"
#include "framework/config/load.h"
#include "framework/core/error.h"
#include "tests/helpers/temporary_folder.h"

namespace packtrain {
namespace {

// The sweep of `text` over one configuration, with `more` in it.
Sweep sweep_of(const std::string& text, const std::string& more = "") {
  const test::TemporaryFolder folder;
  test::write_bytes(folder / "a.yaml",
                    "model: {config: {model_type: llama, hidden_size: 64}}\n"
                    "adapter: {kind: lora, rank: 4}\n"
                    "data: {train: stores/a}\n" +
                        more);
  test::write_bytes(folder / "s.yaml",
                    "sweep: {configs: " + (folder / "a.yaml") + ", output: out}\n" + text);
  return load_sweep(folder / "s.yaml");
}

std::vector<std::string> adapter_names(const JoinedRun& run) {
  std::vector<std::string> names;
  for (const NamedAdapter& adapter : run.config.adapters) names.push_back(adapter.name);
  return names;
}

std::string error_of(const std::string& text, const std::string& more = "") {
  const Sweep sweep = sweep_of(text, more);
  try {
    join_runs(sweep);
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 64);
    return error.what();
  }
  ADD_FAILURE() << "joined without an error";
  return "";
}

constexpr const char* kRatesAndRanks =
    "product: {adapter.rank: [4, 8], optimizer.learning_rate: [1.0e-3, 1.0e-4]}\n";

TEST(SweepTogether, RunsThatDifferInKeysOfAdaptersAreOneRun) {
  const JoinedSweep joined = join_runs(sweep_of(kRatesAndRanks));
  ASSERT_EQ(joined.runs.size(), 1U);
  EXPECT_EQ(
      adapter_names(joined.runs[0]),
      (std::vector<std::string>{"rank-4-learning_rate-0_001", "rank-4-learning_rate-0_0001",
                                "rank-8-learning_rate-0_001", "rank-8-learning_rate-0_0001"}));
  EXPECT_TRUE(joined.separating_keys.empty());
}

TEST(SweepTogether, EachAdapterHasTheSettingsOfItsOwnRun) {
  const Sweep sweep = sweep_of(
      "list:\n"
      "  - {batch.global_batch_size: 8, schedule.name: constant, data.train: stores/b}\n"
      "  - {batch.global_batch_tokens: 100, adapter.targets: [q_proj, v_proj]}\n"
      "product: {adapter.rank_pattern: [{q_proj: 2}, {}], optimizer.betas: [[0.9, 0.95]]}\n");
  const JoinedSweep joined = join_runs(sweep);
  ASSERT_EQ(joined.runs.size(), 1U);
  const std::vector<Config> own = adapter_configs(joined.runs[0].config);
  ASSERT_EQ(own.size(), sweep.runs.size());
  for (std::size_t k = 0; k < own.size(); ++k) {
    Config wanted = sweep.runs[k].config;
    wanted.adapter.name = own[k].adapter.name;
    EXPECT_EQ(dump_config(joined.runs[0].members[k].config), dump_config(wanted));
    wanted.run.output = own[k].run.output;
    EXPECT_EQ(dump_config(own[k]), dump_config(wanted));
  }
}

TEST(SweepTogether, OtherKeysSeparateRuns) {
  const JoinedSweep joined = join_runs(
      sweep_of("product: {data.max_length: [64, 128], run.seed: [1, 2], adapter.rank: [4, 8]}\n"));
  ASSERT_EQ(joined.runs.size(), 4U);
  EXPECT_EQ(joined.separating_keys, (std::vector<std::string>{"data.max_length", "run.seed"}));
  std::set<std::string> names;
  for (const JoinedRun& run : joined.runs) {
    EXPECT_EQ(adapter_names(run), (std::vector<std::string>{"rank-4", "rank-8"}));
    EXPECT_EQ(run.members[0].values[0], run.members[1].values[0]);
    EXPECT_EQ(run.config.run.output, "out/runs/" + run.name);
    names.insert(run.name);
  }
  EXPECT_EQ(names.size(), 4U);
  EXPECT_TRUE(joined.runs[0].name.starts_with("together-max_length=64,seed=1-"));
}

TEST(SweepTogether, ARunIsTheSameWhenTheSweepIsReadAgain) {
  const JoinedSweep first = join_runs(sweep_of(kRatesAndRanks));
  const JoinedSweep again = join_runs(sweep_of(kRatesAndRanks));
  const JoinedSweep changed = join_runs(sweep_of(kRatesAndRanks, "run: {max_steps: 7}\n"));
  EXPECT_EQ(first.runs[0].name, again.runs[0].name);
  EXPECT_EQ(first.runs[0].hash, again.runs[0].hash);
  EXPECT_NE(first.runs[0].hash, changed.runs[0].hash);
  EXPECT_EQ(adapter_names(first.runs[0]), adapter_names(changed.runs[0]));
}

TEST(SweepTogether, NamesThatWouldBeEqualOrTooLongHaveAHash) {
  const std::string folder(80, 'x');
  const JoinedSweep joined = join_runs(
      sweep_of("product: {data.train: [a/b, a-b, " + folder + "], adapter.rank: [4, 8]}\n"));
  ASSERT_EQ(joined.runs.size(), 1U);
  const std::vector<std::string> names = adapter_names(joined.runs[0]);
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), 6U);
  EXPECT_TRUE(names[0].starts_with("train-a-b-rank-4-")) << names[0];
  EXPECT_LE(names[5].size(), 64U);
}

TEST(SweepTogether, AGivenNameIsTheAdaptersName) {
  const JoinedSweep joined =
      join_runs(sweep_of("list: [{adapter.name: low, adapter.rank: 2}, {adapter.name: high}]\n"));
  ASSERT_EQ(joined.runs.size(), 1U);
  EXPECT_EQ(adapter_names(joined.runs[0]), (std::vector<std::string>{"low", "high"}));
}

TEST(SweepTogetherErrors, AdaptersOfEqualNames) {
  EXPECT_NE(error_of("settings: {adapter.name: x}\nproduct: {adapter.rank: [2, 4]}\n")
                .find("two adapters of one run are named 'x'\n  Leave adapter.name out"),
            std::string::npos);
}

TEST(SweepTogetherErrors, WhatSeveralAdaptersCannotHaveIsNamed) {
  const std::string ranks = "product: {adapter.rank: [2, 4]}\n";
  EXPECT_EQ(error_of(ranks + "settings: {data.validation: v, checkpoint.keep_best: 1}\n"),
            "2 adapters together: checkpoint.keep_best is not possible with several adapters "
            "(adapters)\n  Their best steps differ: set it to 0. Or leave --together out: each "
            "adapter is then a run of its own.");
  EXPECT_NE(error_of(ranks + "settings: {adapter.save: [lm_head]}\n").find("adapter.save is not"),
            std::string::npos);
}

TEST(SweepTogetherErrors, RunsThatTrainNoAdapterOrSeveral) {
  EXPECT_NE(error_of("product: {adapter.kind: [lora, none]}\n")
                .find("adapter.kind is none, and --together trains adapters"),
            std::string::npos);
  EXPECT_NE(error_of("product: {run.seed: [1]}\n", "adapters: [{name: a}]\n")
                .find("its configuration has adapters already"),
            std::string::npos);
}

}  // namespace
}  // namespace packtrain
