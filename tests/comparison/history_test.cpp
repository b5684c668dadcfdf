#include <gtest/gtest.h>

#include "framework/comparison/run_history.h"
#include "framework/metrics/json_line.h"
#include "framework/support/error.h"

namespace packtrain {
namespace {

std::string step_line(std::int64_t step) {
  StepRecord record;
  record.step = step;
  record.loss = 1.5;
  record.num_tokens = 77;
  return step_json_line(record) + "\n";
}

TEST(RunHistory, IsWhatMetricsWrote) {
  EvaluationRecord evaluation;
  evaluation.step = 2;
  evaluation.loss = 3.25;
  const RunHistory history = parse_history(
      step_line(1) + step_line(2) + evaluation_json_line(evaluation) + "\n", "metrics.jsonl");
  ASSERT_EQ(history.steps.size(), 2U);
  EXPECT_EQ(history.steps[1].step, 2);
  EXPECT_EQ(history.steps[1].loss, 1.5);
  EXPECT_EQ(history.steps[1].num_tokens, 77);
  ASSERT_EQ(history.evaluations.size(), 1U);
  EXPECT_EQ(history.evaluations[0].step, 2);
  EXPECT_EQ(history.evaluations[0].loss, 3.25);
}

TEST(RunHistory, NamesTheLineThatIsNone) {
  for (const std::string& bad :
       {std::string("{\"step\": \n"), std::string("{\"step\": 2}\n"), step_line(3)}) {
    try {
      parse_history(step_line(1) + bad, "run/metrics.jsonl");
      FAIL() << bad;
    } catch (const Error& error) {
      EXPECT_EQ(error.category(), ErrorCategory::kData);
      EXPECT_NE(error.message().find("run/metrics.jsonl:2: "), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace packtrain
