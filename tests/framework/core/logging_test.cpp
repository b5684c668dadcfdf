#include "framework/core/logging.h"

#include <gtest/gtest.h>

#include <regex>

#include "framework/core/error.h"
#include "framework/core/file.h"
#include "tests/helpers/temporary_folder.h"

namespace packtrain {
namespace {

class Logging : public ::testing::Test {
 protected:
  // Logs a line of each level as `rank` of 4 and returns what reached standard error.
  std::string log_as(int rank, const std::string& file) {
    ::testing::internal::CaptureStderr();
    start_logging(rank, 4, file);
    set_log_position(12, "forward");
    log_debug("a detail");
    log_info("a fact");
    log_warning("a worry");
    flush_log();
    return ::testing::internal::GetCapturedStderr();
  }

  void TearDown() override {
    start_logging(0, 1, "");
    set_log_position(0, "start");
  }

  test::TemporaryFolder folder_;
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_F(Logging, AFolderThatCannotBeMadeIsRefusedWithTheReasonOfTheSystem) {
  const std::string file = folder_ / "file";
  test::write_bytes(file, "in the way");
  const Error error = test::error_of([&] { start_logging(0, 1, file + "/log/rank-0.log"); });
  EXPECT_TRUE(has(error.message(), "Not a directory")) << error.message();
  EXPECT_TRUE(has(error.advice(), "run.output")) << error.advice();
}

TEST_F(Logging, EveryLineCarriesTimeRankStepAndPhase) {
  const std::regex line(
      R"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} rank 2/4 step 12 forward warning: a worry\n)");
  const std::string text = log_as(2, "");
  EXPECT_TRUE(std::regex_match(text, line)) << text;
}

TEST_F(Logging, RankZeroLogsFactsAndTheOthersOnlyWarnings) {
  const std::string first = log_as(0, "");
  EXPECT_TRUE(has(first, "info: a fact")) << first;
  EXPECT_FALSE(has(first, "a detail")) << first;
  EXPECT_FALSE(has(log_as(1, ""), "a fact"));
}

TEST_F(Logging, TheFileOfARankHasEverythingOfAllItsRuns) {
  const std::string file = folder_ / "new/log/rank-1.log";
  log_as(1, file);
  log_as(1, file);
  const std::string text = read_text(file, ErrorCategory::kInternal);
  const std::size_t second = text.find("a worry") + 1;
  for (const char* part : {"debug: a detail", "info: a fact", "warning: a worry"}) {
    EXPECT_TRUE(has(text, part)) << text;
    EXPECT_TRUE(has(text.substr(second), part)) << text;
  }
}

TEST_F(Logging, NoColourOutsideATerminal) {
  EXPECT_FALSE(has(log_as(0, ""), "\x1b"));
}

TEST_F(Logging, AFileThatCannotBeOpenedIsNamed) {
  test::write_bytes(folder_ / "file", "");
  const std::string path = folder_ / "file/rank-0.log";
  const Error error = test::error_of([&] { start_logging(0, 1, path); });
  EXPECT_EQ(error.category(), ErrorCategory::kConfig);
  EXPECT_TRUE(has(error.message(), path)) << error.what();
}

}  // namespace
}  // namespace packtrain
