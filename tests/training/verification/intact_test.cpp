// An undamaged run passes verification under any configuration.
#include <numeric>

#include "samplers/plan_file/plan_file.h"
#include "tests/training/verification/fixture.h"

namespace packtrain::test {
namespace {

using Verification = VerificationTest;

// One step of all of them.
std::string plan_of_all_examples(std::int64_t num_examples) {
  std::vector<std::int64_t> examples(static_cast<std::size_t>(num_examples));
  std::iota(examples.begin(), examples.end(), 0);
  PlanFileStep step;
  step.ranks = {{examples}};
  PlanFileHeader header;
  header.num_examples = num_examples;
  return plan_file_header_line(header) + plan_file_step_line(step, false);
}

TEST_F(Verification, PassesWithEveryStrategyAndPrecision) {
  const TemporaryFolder folder;
  config_.batch.plan_file = folder / "plan.jsonl";
  write_bytes(config_.batch.plan_file, plan_of_all_examples(40));
  for (const StrategyTraits& strategy : kStrategyTraits) {
    for (const Precision precision : {Precision::kFloat32, Precision::kBFloat16}) {
      config_.batch.strategy = strategy.strategy;
      config_.precision.compute = config_.precision.reduce = precision;
      const VerificationReport report = verify();
      EXPECT_EQ(report.failed_checks(), Names()) << all_failures(report);
      for (const CheckResult& check : report.checks) {
        const bool is_trivial = check.name == "ranks" && test_world().size() == 1;
        EXPECT_EQ(check.num_cases == 0, is_trivial) << check.name;
      }
    }
  }
}

TEST_F(Verification, PassesHoweverTheRunIsLaidOut) {
  config_.batch.normalize = Normalize::kExamples;
  config_.parallel.gather_slots = 1;
  config_.debug.poison_slots = true;
  config_.memory.recompute = Recompute::kFull;
  config_.model.frozen = {"embed.weight"};
  EXPECT_EQ(verify().failed_checks(), Names());
  config_.parallel.zero_stage = 2;
  EXPECT_EQ(verify().failed_checks(), Names());
}

TEST_F(Verification, PiecesOfASplitExampleAreTrainedApart) {
  config_.data.max_length = 10;
  config_.data.too_long = TooLong::kSplit;
  const VerificationReport report = verify();
  EXPECT_EQ(report.failed_checks(), Names()) << all_failures(report);
  EXPECT_GT(check_named(report, "boundaries").num_cases, report.num_examples);
}

TEST_F(Verification, TakesAsManyExamplesAndStepsAsAskedFor) {
  const VerificationReport report = verify({.num_examples = 6, .num_steps = 3, .collate = {}});
  EXPECT_EQ(report.num_steps, 3);
  EXPECT_EQ(report.num_examples, 18);
  EXPECT_EQ(check_named(report, "packed").num_cases, 18);
  EXPECT_EQ(report.failed_checks(), Names());
}

TEST_F(Verification, MakesStepsSmallerThatAreCountedInTokens) {
  config_.batch.global_batch_size.reset();
  config_.batch.global_batch_tokens = 1 << 20;  // all 40 examples
  const VerificationReport report = verify({.num_examples = 4, .num_steps = 1, .collate = {}});
  EXPECT_EQ(report.failed_checks(), Names());
  EXPECT_GE(report.num_examples, 2);
  EXPECT_LT(report.num_examples, 20);
}

TEST_F(Verification, AnExampleAloneHasNothingToBeComparedWith) {
  config_.batch.global_batch_size = 1;
  const VerificationReport report = verify();
  EXPECT_EQ(report.failed_checks(), Names());
  EXPECT_EQ(check_named(report, "isolation").num_cases, 0);
}

TEST_F(Verification, WeightsThatAreNotFiniteAreNoSuccess) {
  const std::string small = "\"rms_norm_eps\"";
  config_.model.config.replace(config_.model.config.find(small), 0,
                               "\"initializer_range\": 1e38, ");
  const VerificationReport report = verify();
  EXPECT_TRUE(says(check_named(report, "packed"), {"loss", "nan"})) << all_failures(report);
}

}  // namespace
}  // namespace packtrain::test
