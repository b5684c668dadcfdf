// packtrain plan from outside: its figures and steps.
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/launch/cli/plan_fixture.h"

namespace packtrain {
namespace {

TEST_F(Plan, PrintsExactlyTheseKeys) {
  const std::set<std::string> keys = {"strategy",
                                      "num_parameters",
                                      "num_ranks",
                                      "num_hosts",
                                      "ranks_per_host",
                                      "shard_size",
                                      "num_steps",
                                      "num_examples",
                                      "num_tokens",
                                      "num_loss_tokens",
                                      "num_groups",
                                      "max_rows_in_group",
                                      "saved_row_fraction",
                                      "dropped_examples",
                                      "cut_to_nothing_examples",
                                      "shared_validation_examples",
                                      "stores",
                                      "adapters",
                                      "truncated_examples",
                                      "split_examples",
                                      "padding_fraction",
                                      "fill",
                                      "token_imbalance",
                                      "cost_utilization",
                                      "cost_bound",
                                      "num_micro_batches",
                                      "planning_time_s",
                                      "max_tokens_in_micro_batch",
                                      "max_tokens_per_micro_batch",
                                      "num_trained_parameters",
                                      "recompute",
                                      "gather_slots",
                                      "accumulate",
                                      "memory_limit_bytes",
                                      "memory_bytes_by_purpose",
                                      "memory_is_most_in",
                                      "gpu_memory_bytes",
                                      "predicted_memory_bytes",
                                      "predicted_allocated_bytes",
                                      "predicted_step_time_s",
                                      "saved_bytes_per_layer",
                                      "predicted_host_bytes",
                                      "available_host_bytes",
                                      "predicted_state_copy_s",
                                      "host_bytes_of_a_rank",
                                      "host_bytes_shared",
                                      "checkpoint_bytes",
                                      "max_checkpoints",
                                      "lengths",
                                      "warnings",
                                      "num_epochs",
                                      "tokens_per_parameter"};
  EXPECT_EQ(keys_of(plan("")), keys);
  std::set<std::string> with_steps = keys;
  with_steps.insert("steps");
  EXPECT_EQ(keys_of(plan("--steps 1")), with_steps);
}

TEST_F(Plan, CountsOneEpochAndTheStepsOfTheRun) {
  const Json json = plan("--ranks 4");
  EXPECT_EQ(json["strategy"], "balanced");
  EXPECT_EQ(json["num_ranks"], 4);
  EXPECT_EQ(json["num_steps"], 3 * kStepsPerEpoch);
  EXPECT_EQ(json["num_examples"], kNumExamples);
  EXPECT_EQ(json["num_tokens"], num_tokens_);
  EXPECT_EQ(json["num_loss_tokens"], num_loss_tokens_);
  EXPECT_EQ(json["dropped_examples"], 0);
  EXPECT_EQ(json["truncated_examples"], 0);
  EXPECT_EQ(json["split_examples"], 0);
  EXPECT_EQ(plan("run.max_steps=5")["num_steps"], 5);
}

TEST_F(Plan, FiguresKeepToTheirRanges) {
  const Json json = plan("--ranks 4");
  EXPECT_GT(json["fill"], 0.0);
  EXPECT_LE(json["fill"], 1.0);
  EXPECT_GE(json["token_imbalance"], 1.0);
  EXPECT_GT(json["cost_utilization"], 0.5);
  EXPECT_LE(json["cost_utilization"], json["cost_bound"].get<double>() + 1e-12);
  EXPECT_LE(json["cost_bound"], 1.0);
  EXPECT_LE(json["max_tokens_in_micro_batch"], 512);
  EXPECT_GE(json["num_micro_batches"], kStepsPerEpoch);
  EXPECT_GT(json["predicted_memory_bytes"], 0);
  EXPECT_GT(json["saved_bytes_per_layer"]["mlp.gate_up"], json["saved_bytes_per_layer"]["input"]);
  EXPECT_TRUE(json["predicted_step_time_s"].is_null());
}

TEST_F(Plan, OneRankNeverWaits) {
  const Json json = plan("");
  EXPECT_NEAR(json["cost_utilization"], 1.0, 1e-12);
  EXPECT_NEAR(json["cost_bound"], 1.0, 1e-12);
}

TEST_F(Plan, TwiceTheFlopRateHalvesThePredictedStepTime) {
  const double slow = plan("--ranks 2 --tflops 1.5")["predicted_step_time_s"];
  const double fast = plan("--ranks 2 --tflops 3")["predicted_step_time_s"];
  EXPECT_GT(slow, 0.0);
  EXPECT_NEAR(slow, 2 * fast, 1e-9 * slow);
}

TEST_F(Plan, AssignsEveryExampleOnceAnEpoch) {
  const Json json = plan("--ranks 3 --steps 13");
  ASSERT_EQ(json["steps"].size(), kStepsPerEpoch);
  std::map<std::int64_t, int> seen;
  for (const Json& step : json["steps"]) {
    EXPECT_EQ(step["ranks"].size(), 3U);
    for (const std::int64_t example : examples_of(step)) ++seen[example];
  }
  EXPECT_EQ(std::ssize(seen), kNumExamples);
  for (const auto& [example, times] : seen) EXPECT_EQ(times, 1) << example;
}

TEST_F(Plan, ExamplesOfAStepDoNotDependOnTheRanks) {
  const Json one = plan("--steps 4");
  const Json five = plan("--ranks 5 --steps 4");
  for (std::size_t step = 0; step < 4; ++step) {
    EXPECT_EQ(one["steps"][step]["step"], step);
    EXPECT_EQ(examples_of(one["steps"][step]), examples_of(five["steps"][step]));
  }
}

TEST_F(Plan, AsksForNoMoreStepsThanTheRunHas) {
  EXPECT_EQ(plan("run.num_epochs=2 --steps 1000")["steps"].size(), 2 * kStepsPerEpoch);
}

TEST_F(Plan, ShowsStepsFromTheFirstThatIsAskedFor) {
  const Json all = plan("--ranks 2 --steps 39");
  const Json some = plan("--ranks 2 --first-step 20 --steps 2");
  ASSERT_EQ(some["steps"].size(), 2U);
  EXPECT_EQ(some["steps"][0], all["steps"][20]);
  EXPECT_EQ(some["steps"][1], all["steps"][21]);
  EXPECT_EQ(plan("--first-step 39 --steps 1")["steps"].size(), 0U);
}

TEST_F(Plan, ShowsTheRowsOfEachMicroBatch) {
  const Json json =
      plan("batch.strategy=padding batch.max_tokens_per_micro_batch=1024 --ranks 2 --steps 13");
  double rows = 0;
  for (const Json& step : json["steps"]) {
    ASSERT_EQ(step["rows"].size(), 2U);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      ASSERT_EQ(step["rows"][rank].size(), step["ranks"][rank].size());
      for (const Json& micro_batch : step["rows"][rank]) rows += micro_batch.get<double>();
    }
  }
  EXPECT_NEAR(json["padding_fraction"].get<double>(), 1 - static_cast<double>(num_tokens_) / rows,
              1e-12);
}

TEST_F(Plan, CountsExamplesByLength) {
  std::int64_t num_examples = 0;
  std::int64_t num_tokens = 0;
  const Json json = plan("");
  for (const Json& bin : json["lengths"]) {
    const auto examples = bin["num_examples"].get<std::int64_t>();
    const auto tokens = bin["num_tokens"].get<std::int64_t>();
    EXPECT_GE(tokens, examples * bin["min_tokens"].get<std::int64_t>());
    EXPECT_LE(tokens, examples * bin["max_tokens"].get<std::int64_t>());
    num_examples += examples;
    num_tokens += tokens;
  }
  EXPECT_EQ(num_examples, kNumExamples);
  EXPECT_EQ(num_tokens, num_tokens_);
}

TEST_F(Plan, CountsWhatIsDroppedAndTruncated) {
  const Json dropped = plan("data.max_length=40 data.too_long=drop");
  EXPECT_GT(dropped["dropped_examples"], 0);
  EXPECT_EQ(
      dropped["num_examples"].get<std::int64_t>() + dropped["dropped_examples"].get<std::int64_t>(),
      kNumExamples);
  const Json truncated = plan("data.max_length=40 data.too_long=truncate");
  EXPECT_EQ(truncated["truncated_examples"], dropped["dropped_examples"]);
  EXPECT_EQ(truncated["num_examples"], kNumExamples);
  EXPECT_LT(truncated["num_tokens"], num_tokens_);
}

TEST_F(Plan, CountsTheTokensOfAllEpochsForEachParameter) {
  const Json once = plan("run.num_epochs=1");
  const Json thrice = plan("run.num_epochs=3");
  EXPECT_NEAR(once["tokens_per_parameter"].get<double>(),
              static_cast<double>(num_tokens_) / once["num_parameters"].get<double>(), 1e-9);
  EXPECT_NEAR(thrice["tokens_per_parameter"].get<double>(),
              3 * once["tokens_per_parameter"].get<double>(), 1e-6);
  EXPECT_EQ(thrice["num_epochs"], 3.0);
}

TEST_F(Plan, ReportsTheBoundAndASettingThatHelps) {
  const Outcome made = packtrain(
      "prepare --synthetic lognormal:3.5,0.8,2,256 --examples 4000 --vocab-size 128 --out large");
  ASSERT_EQ(made.exit_code, 0) << made.said;
  const Outcome outcome = packtrain(
      "plan config.yaml data.train=large --ranks 16 "
      "batch.max_tokens_per_micro_batch=8192");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.said;
  for (const char* part :
       {"utilisation", "lengths in tokens", "step 2: busy share",
        "At 16 ranks no assignment of these batches passes", "batch.global_batch_size="}) {
    EXPECT_EQ(count(outcome.said, part), 1U) << part << "\n" << outcome.said;
  }
}

TEST_F(Plan, WarnsOfWhatWillHurt) {
  using Names = std::set<std::string>;
  EXPECT_EQ(names_of_warnings(plan("")), Names{});
  EXPECT_EQ(names_of_warnings(plan("run.max_steps=5")), Names{"few_steps"});
  EXPECT_EQ(names_of_warnings(plan("schedule.warmup_steps=39")), Names{"warmup"});
  EXPECT_EQ(names_of_warnings(plan("memory.limit_gib=0.0005")), Names{"memory"});
  EXPECT_EQ(names_of_warnings(plan("data.max_length=40 data.too_long=drop")), Names{"dropped"});
  EXPECT_EQ(names_of_warnings(plan("data.max_length=40 data.too_long=truncate")),
            Names{"truncated"});
  EXPECT_EQ(names_of_warnings(plan("data.max_length=40 data.too_long=split")), Names{"split"});
  EXPECT_EQ(names_of_warnings(plan("data.validation=./store")), Names{"validation"});
  EXPECT_EQ(names_of_warnings(plan("--ranks 17")), Names{"idle_ranks"});
  EXPECT_EQ(names_of_warnings(plan("model.config.max_position_embeddings=64")), Names{"positions"});
}

TEST_F(Plan, BadInputHasItsExitCodeAndNothingElse) {
  EXPECT_EQ(packtrain("plan config.yaml --ranks 0").exit_code, 64);
  EXPECT_EQ(packtrain("plan config.yaml batch.max_tokens_per_micro_batch=8").exit_code, 64);
  EXPECT_EQ(packtrain("plan config.yaml data.train=nowhere").exit_code, 65);
  const Outcome too_long = packtrain("plan config.yaml --json data.max_length=40");
  EXPECT_EQ(too_long.exit_code, 65);
  EXPECT_EQ(count(too_long.said, "{"), 0U) << too_long.said;
}

}  // namespace
}  // namespace packtrain
