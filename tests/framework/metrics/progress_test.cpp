#include "framework/metrics/progress.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace packtrain {
namespace {

struct Screen {
  std::vector<std::string> writes;

  ProgressOutput log() {
    return {.write = [this](std::string_view text) { writes.emplace_back(text); }};
  }
  ProgressOutput terminal(std::size_t width) {
    ProgressOutput output = log();
    output.is_terminal = true;
    output.width = [width] { return width; };
    return output;
  }
};

StepRecord step_record(std::int64_t step, double step_time_s = 0.25) {
  StepRecord record;
  record.step = step;
  record.step_time_s = step_time_s;
  return record;
}

bool mentions(const std::string& line, std::int64_t step) {
  return line.find("step " + std::to_string(step) + "/") != std::string::npos;
}

TEST(Progress, WritesALineASecondInALogAlwaysTheFirstAndTheLast) {
  Screen screen;
  Progress progress(10, screen.log());
  for (int step = 1; step <= 10; ++step) progress.step(step_record(step), 0.25 * step);
  ASSERT_EQ(screen.writes.size(), 4U);
  EXPECT_TRUE(mentions(screen.writes[0], 1));
  EXPECT_TRUE(mentions(screen.writes[1], 5));
  EXPECT_TRUE(mentions(screen.writes[2], 9));
  EXPECT_TRUE(mentions(screen.writes[3], 10));
  for (const std::string& line : screen.writes) {
    EXPECT_EQ(line.find('\n'), line.size() - 1);
    EXPECT_EQ(line.find_first_of("\r\x1b"), std::string::npos) << "control codes in a log";
  }
}

TEST(Progress, WritesTheStepHeldBackWhenTheRunStopsEarly) {
  Screen screen;
  {
    Progress progress(10, screen.log());
    progress.step(step_record(1), 0.1);
    progress.step(step_record(2), 0.2);
  }
  ASSERT_EQ(screen.writes.size(), 2U);
  EXPECT_TRUE(mentions(screen.writes[1], 2));
}

TEST(Progress, WritesNothingTwice) {
  Screen screen;
  {
    Progress progress(2, screen.log());
    progress.step(step_record(1), 0.1);
    progress.step(step_record(2), 0.2);
  }
  EXPECT_EQ(screen.writes.size(), 2U);
}

TEST(Progress, WritesAStepWithoutAFiniteLoss) {
  Screen screen;
  Progress progress(10, screen.log());
  progress.step(step_record(1), 0.1);
  StepRecord record = step_record(2);
  record.loss = std::nan("");
  progress.step(record, 0.2);
  EXPECT_EQ(screen.writes.size(), 2U);
}

TEST(Progress, WritesEveryEvaluationAfterItsStep) {
  Screen screen;
  Progress progress(10, screen.log());
  progress.step(step_record(1), 0.1);
  progress.step(step_record(2), 0.2);
  progress.evaluation({.step = 2, .loss = 2.5});
  ASSERT_EQ(screen.writes.size(), 3U);
  EXPECT_TRUE(mentions(screen.writes[1], 2));
  EXPECT_TRUE(screen.writes[2].starts_with("step 2  validation loss 2.500"));
}

TEST(Progress, RewritesOneLineOnATerminal) {
  Screen screen;
  Progress progress(4, screen.terminal(100));
  for (int step = 1; step <= 4; ++step) progress.step(step_record(step), step);
  ASSERT_EQ(screen.writes.size(), 4U);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(screen.writes[i].starts_with("\r\x1b[K[####")) << screen.writes[i];
    EXPECT_EQ(screen.writes[i].find('\n'), std::string::npos);
  }
  EXPECT_NE(screen.writes[1].find("[##########..........] step 2/4"), std::string::npos);
  EXPECT_TRUE(screen.writes[3].ends_with('\n')) << "the last line stays";
}

TEST(Progress, NeverWrapsALineOnATerminal) {
  for (std::size_t width = 1; width < 140; ++width) {
    Screen screen;
    Progress progress(4, screen.terminal(width));
    progress.step(step_record(1), 1);
    const std::size_t num_columns = screen.writes[0].size() - std::string("\r\x1b[K").size();
    EXPECT_LT(num_columns, std::max<std::size_t>(width, 2)) << width;
  }
}

TEST(Progress, ShowsTheMostImportantInANarrowTerminal) {
  Screen screen;
  Progress progress(4, screen.terminal(48));
  progress.step(step_record(1), 1);
  EXPECT_EQ(screen.writes[0], "\r\x1b[Kstep 1/4 (25.0 %)  loss 0.000  1 s left");
}

TEST(Progress, FollowsATerminalThatIsMadeNarrower) {
  Screen screen;
  std::size_t width = 120;
  ProgressOutput output = screen.terminal(width);
  output.width = [&width] { return width; };
  Progress progress(4, output);
  progress.step(step_record(1), 1);
  width = 30;
  progress.step(step_record(2), 2);
  EXPECT_GT(screen.writes[0].size(), 80U);
  EXPECT_LT(screen.writes[1].size(), 34U);
}

TEST(Progress, WritesALineForEachNamedEvaluationSet) {
  Screen screen;
  Progress progress(10, screen.log());
  const std::vector<EvaluationRecord> sets = {{.step = 2, .loss = 2.5, .set = "code"},
                                              {.step = 2, .loss = 1.5, .set = "chat"}};
  progress.evaluation({.step = 2, .loss = 2.5, .set = "code", .all_sets = sets});
  ASSERT_EQ(screen.writes.size(), 2U);
  EXPECT_TRUE(screen.writes[0].starts_with("step 2  validation loss code 2.500"));
  EXPECT_TRUE(screen.writes[1].starts_with("step 2  validation loss chat 1.500"));
}

TEST(Progress, ShowsTheLatestValidationLossOnATerminalAlone) {
  Screen screen;
  Progress progress(10, screen.terminal(120));
  progress.step(step_record(1), 1);
  progress.evaluation({.step = 1, .loss = 2.5});
  progress.step(step_record(2), 2);
  EXPECT_EQ(screen.writes.front().find("validation"), std::string::npos);
  EXPECT_NE(screen.writes.back().find("  loss 0.000  validation 2.500  "), std::string::npos)
      << screen.writes.back();
  Screen log;
  Progress plain(10, log.log());
  plain.evaluation({.step = 1, .loss = 2.5});
  plain.step(step_record(2), 2);
  EXPECT_EQ(log.writes.back().find("validation"), std::string::npos);
}

TEST(Progress, WritesTheNumbersOfACommandOnALineOfTheirOwn) {
  Screen screen;
  Progress progress(10, screen.terminal(120));
  progress.step(step_record(1), 1);
  progress.command({.step = 1, .values = {{"accuracy", 0.25}, {"f1", 2}}});
  EXPECT_EQ(screen.writes.back(), "\r\x1b[Kstep 1  accuracy 0.25  f1 2\n");
}

TEST(Progress, DrawsAtMostTenTimesASecondOnATerminal) {
  Screen screen;
  Progress progress(1000, screen.terminal(100));
  for (int step = 1; step <= 200; ++step) progress.step(step_record(step), 0.01 * step);
  EXPECT_GE(screen.writes.size(), 15U);
  EXPECT_LE(screen.writes.size(), 21U);
}

TEST(Progress, EstimatesTheTimeLeftWithoutTheWarmUp) {
  Screen screen;
  Progress progress(102, screen.log());
  progress.step(step_record(1, 60.0), 60);
  EXPECT_DOUBLE_EQ(progress.seconds_left(2), 6000.0) << "all it knows";
  progress.step(step_record(2, 1.0), 61);
  EXPECT_DOUBLE_EQ(progress.seconds_left(2), 100.0);
  progress.step(step_record(3, 2.0), 63);
  EXPECT_DOUBLE_EQ(progress.seconds_left(2), 110.0);
  EXPECT_DOUBLE_EQ(progress.seconds_left(103), 0.0);
}

}  // namespace
}  // namespace packtrain
