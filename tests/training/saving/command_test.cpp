// Tests how commands of a configuration are started, and what is read from their output.
#include "training/saving/command.h"

#include <gtest/gtest.h>

#include "framework/core/file.h"
#include "tests/helpers/temporary_folder.h"
#include "training/saving/evaluate_command.h"

namespace packtrain {
namespace {

using test::TemporaryFolder;
using Words = std::vector<std::string>;

class CommandTest : public ::testing::Test {
 protected:
  CommandEnd run(const std::string& script, bool keeps_output, double timeout_s = 60) {
    return run_command({.words = {"sh", "-c", script},
                        .log = log_,
                        .keeps_output = keeps_output,
                        .timeout_s = timeout_s},
                       stops_.get_token());
  }

  TemporaryFolder folder_;
  std::string log_ = folder_ / "log/command.log";
  std::stop_source stops_;
};

TEST_F(CommandTest, BothOutputsAreInTheLogUnlessOneIsKept) {
  EXPECT_TRUE(run("echo out; echo err >&2", false).succeeded);
  const CommandEnd end = run("echo kept; echo more >&2", true);
  EXPECT_EQ(end.output, "kept\n");
  EXPECT_EQ(read_text(log_, ErrorCategory::kInternal), "out\nerr\nmore\n");
}

TEST_F(CommandTest, AFailureHasTheLastLineOfThisStartAlone) {
  run("echo earlier >&2", false);
  EXPECT_EQ(run("exit 3", false).failure, "exit code 3");
  EXPECT_EQ(run("echo a; echo 'no such bucket' >&2; exit 4", false).failure,
            "exit code 4: no such bucket");
}

TEST_F(CommandTest, ALongCommandIsEndedAtItsTimeout) {
  const CommandEnd end = run("sleep 100", false, 0.05);
  EXPECT_FALSE(end.succeeded);
  EXPECT_EQ(end.failure, "ended after 0.05 s (run.command_timeout_s)");
}

TEST_F(CommandTest, ARequestToStopEndsIt) {
  stops_.request_stop();
  EXPECT_EQ(run("sleep 100", false).failure, "ended, because the run ends");
}

TEST_F(CommandTest, OnlyTheEndOfALongOutputIsKept) {
  const CommandEnd end = run("head -c 3000000 /dev/zero | tr '\\0' x; echo; echo '{}'", true);
  EXPECT_EQ(end.output.size(), static_cast<std::size_t>(kMaxOutputBytes));
  EXPECT_TRUE(end.output.ends_with("x\n{}\n"));
}

TEST_F(CommandTest, NotesShowWhichStepsHaveSucceeded) {
  const std::string& run_folder = folder_.path();
  EXPECT_FALSE(has_succeeded(run_folder, "a", 4));
  note_command(run_folder, "a", 4, {.succeeded = false, .failure = "x \xff"}, 1);
  EXPECT_FALSE(has_succeeded(run_folder, "a", 4));
  note_command(run_folder, "a", 4, {.succeeded = true}, 1);
  EXPECT_TRUE(has_succeeded(run_folder, "a", 4));
  EXPECT_FALSE(has_succeeded(run_folder, "b", 4));
  EXPECT_FALSE(has_succeeded(run_folder, "a", 8));
}

TEST(CommandWords, ValuesReplaceTheirNamesAndOtherBracesStay) {
  EXPECT_EQ(command_words({"cp", "{checkpoint}/x", "s3://{run}/step-{step}", "{a}"}, "/runs/my/", 8,
                          "checkpoint", "/runs/my/checkpoints/step-8"),
            (Words{"cp", "/runs/my/checkpoints/step-8/x", "s3://my/step-8", "{a}"}));
}

TEST(CommandWords, WithoutItsNameTheFolderIsTheLastWord) {
  EXPECT_EQ(command_words({"copy", "{step}"}, "/runs/my", 8, "export", "/e"),
            (Words{"copy", "8", "/e"}));
}

TEST(PrintedNumbers, TheLastLineThatIsAnObjectCounts) {
  const PrintedNumbers found =
      read_printed_numbers("{\"a\": 1}\nnoise\n{\"b\": 2.5, \"c\": -3e-2}\n[4]\ndone\n");
  EXPECT_EQ(found.failure, "");
  EXPECT_EQ(found.numbers, (std::vector<std::pair<std::string, double>>{{"b", 2.5}, {"c", -0.03}}));
}

TEST(PrintedNumbers, WhatIsNoNumberIsNamed) {
  const PrintedNumbers found =
      read_printed_numbers(R"({"a": 1, "b": "x", "c": true, "d": null, "e": {"f": 1}})");
  EXPECT_EQ(found.numbers.size(), 1U);
  EXPECT_EQ(found.others, (Words{"b", "c", "d", "e"}));
}

TEST(PrintedNumbers, OutputWithoutANumberIsAFailure) {
  for (const char* output :
       {"", "\n\n", "accuracy 0.5\n", "[1]\n", "{\"a\": NaN}\n", "{\"a\": 1"}) {
    EXPECT_EQ(read_printed_numbers(output).failure, "no line of its output is a JSON object")
        << output;
  }
  EXPECT_EQ(read_printed_numbers("{\"a\": []}").failure, "it printed no number: {\"a\":[]}");
  EXPECT_EQ(read_printed_numbers("{}").failure, "it printed no number: {}");
}

}  // namespace
}  // namespace packtrain
