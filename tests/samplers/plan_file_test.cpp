// Tests the reader of plan files, and the errors of files that other programs wrote wrong.
#include "samplers/plan_file/plan_file.h"

#include <gtest/gtest.h>

#include "tests/helpers/temporary_folder.h"

namespace packtrain::plan_file_test {
namespace {

const std::string kTwoRanks = R"({"packtrain_plan": 1, "num_examples": 6, "ranks": 2})"
                              "\n";
const std::string kSteps = R"({"packtrain_plan": 1, "num_examples": 6})"
                           "\n";

class PlanFiles : public ::testing::Test {
 protected:
  std::shared_ptr<const PlanFile> open(const std::string& text) {
    test::write_bytes(folder_ / "plan.jsonl", text);
    return PlanFile::open(folder_ / "plan.jsonl");
  }

  // The error of opening the file and parsing each of its steps, without the folder.
  std::string error(const std::string& text) {
    const Error found = test::error_of([&] {
      const auto file = open(text);
      for (std::int64_t e = 0; e < file->num_epochs(); ++e) {
        for (std::int64_t s = 0; s < file->num_steps(e); ++s) file->step(e, s);
      }
    });
    return found.message().substr(std::min(found.message().size(), folder_.path().size() + 1));
  }

  test::TemporaryFolder folder_;
};

TEST_F(PlanFiles, HaveRanksAndMicroBatchesOfExamples) {
  const auto file = open(kTwoRanks + R"({"ranks": [[[0, 3], [1]], [[2], []]]})" + "\n\n" +
                         R"({"epoch": 1})" + "\n" + R"({"ranks": [[[5]], [[4]]]})");
  EXPECT_EQ(file->header().num_ranks, 2);
  EXPECT_EQ(file->num_epochs(), 2);
  EXPECT_EQ(file->num_steps(0), 1);
  const PlanFileStep step = file->step(0, 0);
  EXPECT_EQ(step.line, 2);
  EXPECT_EQ(step.ranks,
            (std::vector<std::vector<std::vector<std::int64_t>>>{{{0, 3}, {1}}, {{2}, {}}}));
  EXPECT_EQ(file->step(1, 0).line, 5);
  EXPECT_EQ(file->step(1, 0).ranks[1][0], std::vector<std::int64_t>{4});
}

TEST_F(PlanFiles, MayHaveStepsWithoutRanks) {
  const auto file = open(kSteps + R"({"epoch": 0})" + "\n" + R"({"examples": [4, 0]})" + "\n");
  EXPECT_FALSE(file->has_ranks());
  EXPECT_EQ(file->step(0, 0).ranks[0][0], (std::vector<std::int64_t>{4, 0}));
}

TEST_F(PlanFiles, AreReadBackAsTheyWereWritten) {
  PlanFileHeader header{.num_examples = 6, .num_ranks = 2, .lengths = "abc"};
  header.leaves_examples_out = true;
  PlanFileStep step;
  step.ranks = {{{0, 3}, {1}}, {{}, {5}}};
  const auto file = open(plan_file_header_line(header) + plan_file_step_line(step, true) +
                         plan_file_epoch_line(1) + plan_file_step_line(step, true));
  EXPECT_EQ(file->header().num_examples, 6);
  EXPECT_EQ(file->header().num_ranks, 2);
  EXPECT_EQ(file->header().lengths, "abc");
  EXPECT_TRUE(file->header().leaves_examples_out);
  EXPECT_EQ(file->step(0, 0).ranks, step.ranks);
  EXPECT_EQ(file->step(1, 0).ranks, step.ranks);
}

TEST_F(PlanFiles, HaveADigestOfAllTheirBytes) {
  const std::string digest = open(kSteps + R"({"examples": [4, 0]})")->digest();
  EXPECT_EQ(open(kSteps + R"({"examples": [4, 0]})")->digest(), digest);
  EXPECT_NE(open(kSteps + R"({"examples": [0, 4]})")->digest(), digest);
}

// python3 -c "import
// array,hashlib;print(hashlib.blake2b(array.array('i',[3,70000]).tobytes(),digest_size=16).hexdigest())"
TEST_F(PlanFiles, KnowLengthsByTheDigestOfPythonsHashlib) {
  EXPECT_EQ(lengths_digest(std::vector<std::int32_t>{3, 70000}),
            "7bb4e60ff68c3e27ec40e8f00b47a31e");
  std::vector<std::int32_t> many(10'000);
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = static_cast<std::int32_t>(i);
  EXPECT_EQ(lengths_digest(many), "70a9699721f12ccc5ca58f11567d1426");
}

TEST_F(PlanFiles, WithAWrongHeaderAreRefused) {
  EXPECT_EQ(error(""), "plan.jsonl:1: the file is empty");
  EXPECT_EQ(error("[1]"), "plan.jsonl:1: is not a JSON object");
  EXPECT_EQ(error("{}"), "plan.jsonl:1: is no header of a plan file");
  EXPECT_EQ(error(R"({"packtrain_plan": 2})"), "plan.jsonl:1: packtrain_plan is 2, wanted 1");
  EXPECT_EQ(error(R"({"packtrain_plan": 1})"), "plan.jsonl:1: num_examples is missing");
  EXPECT_EQ(error(R"({"packtrain_plan": 1, "num_examples": 6, "rank": 2})"),
            "plan.jsonl:1: 'rank' is no member of this line");
  EXPECT_EQ(error(R"({"packtrain_plan": 1, "num_examples": 6, "ranks": 0})"),
            "plan.jsonl:1: ranks is 0, wanted an integer of at least 1");
  EXPECT_EQ(error(kSteps), "plan.jsonl:1: the file has no step");
  EXPECT_EQ(error(kSteps + R"({"examples": [1]})" + "\n" + R"({"epoch": 2})"),
            "plan.jsonl:3: got epoch 2, wanted 1");
  EXPECT_EQ(error(kSteps + R"({"examples": [1]})" + "\n" + R"({"epoch": 1})"),
            "plan.jsonl:3: epoch 1 has no step");
}

TEST_F(PlanFiles, NameLineStepRankAndMicroBatchOfAFault) {
  EXPECT_EQ(error(kTwoRanks + R"({"ranks": [[[0], [6]], [[1], [2]]]})"),
            "plan.jsonl:2: step 0: rank 0, micro-batch 1: got example 6, wanted a number from 0 "
            "to 5");
  EXPECT_EQ(error(kTwoRanks + R"({"ranks": [[[0], [1.5]], [[1], [2]]]})"),
            "plan.jsonl:2: step 0: rank 0, micro-batch 1: got example 1.5, wanted a number from 0 "
            "to 5");
  EXPECT_EQ(error(kTwoRanks + R"({"ranks": [[[0]]]})"),
            "plan.jsonl:2: step 0: got 1 ranks, wanted 2 as in the header");
  EXPECT_EQ(error(kTwoRanks + R"({"ranks": [[[0], [1]], [[2]]]})"),
            "plan.jsonl:2: step 0: rank 1: got 1 micro-batches, wanted 2 as rank 0 has");
  EXPECT_EQ(error(kTwoRanks + R"({"ranks": [[[0], []], [[1], []]]})"),
            "plan.jsonl:2: step 0: micro-batch 1 is empty on all ranks");
  EXPECT_EQ(error(kTwoRanks + R"({"ranks": [[], []]})"),
            "plan.jsonl:2: step 0: the step has no micro-batch");
  EXPECT_EQ(error(kTwoRanks + R"({"examples": [0]})"), "plan.jsonl:2: step 0: has no 'ranks'");
  EXPECT_EQ(error(kTwoRanks + R"({"ranks": [[0], [1]]})"),
            "plan.jsonl:2: step 0: rank 0, micro-batch 0: got 0, wanted a list of examples");
  EXPECT_EQ(error(kSteps + R"({"examples": []})"),
            "plan.jsonl:2: step 0: the step has no examples");
  EXPECT_EQ(error(kSteps + R"({"examples": [1], "weight": 2})"),
            "plan.jsonl:2: step 0: 'weight' is no member of this line");
  EXPECT_NE(error(kSteps + R"({"examples": [1)").find("plan.jsonl:2: step 0: this line "),
            std::string::npos);
}

}  // namespace
}  // namespace packtrain::plan_file_test
