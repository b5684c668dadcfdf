#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "framework/core/error.h"
#include "framework/metrics/json_line.h"
#include "training/comparison/run_history.h"

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

TEST(RunHistory, WhatWasNotFiniteIsNoNumberAndNoError) {
  StepRecord record;
  record.step = 1;
  record.loss = std::numeric_limits<double>::infinity();
  record.grad_norm = std::numeric_limits<double>::quiet_NaN();
  EvaluationRecord evaluation;
  evaluation.step = 1;
  evaluation.loss = std::numeric_limits<double>::quiet_NaN();
  const RunHistory history = parse_history(
      step_json_line(record) + "\n" + evaluation_json_line(evaluation) + "\n", "metrics.jsonl");
  EXPECT_TRUE(std::isnan(history.steps.at(0).loss));
  EXPECT_TRUE(std::isnan(history.steps.at(0).grad_norm));
  EXPECT_TRUE(std::isnan(history.evaluations.at(0).loss));
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
