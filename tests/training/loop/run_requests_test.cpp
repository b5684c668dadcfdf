// Requests to stop or to save a run: from a signal, from a file, and with the outcome of a step.
#include "training/loop/run_requests.h"

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>

#include "framework/core/file.h"
#include "tests/helpers/temporary_folder.h"

namespace packtrain {
namespace {

using test::TemporaryFolder;

void ask_to_save(const TemporaryFolder& folder) {
  write_text_atomically(folder.path() + "/checkpoint-now", "", ErrorCategory::kInternal);
}

TEST(RunRequests, AFileAsksOnceToSave) {
  const TemporaryFolder folder;
  ask_to_save(folder);
  RunRequests requests(folder.path(), /*rank=*/0);
  EXPECT_TRUE(requests.poll().save);
  EXPECT_FALSE(requests.poll().save);
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/checkpoint-now"));
}

TEST(RunRequests, OtherRanksDoNotLookForTheFile) {
  const TemporaryFolder folder;
  ask_to_save(folder);
  RunRequests requests(folder.path(), /*rank=*/1);
  EXPECT_FALSE(requests.poll().save);
  EXPECT_TRUE(std::filesystem::exists(folder.path() + "/checkpoint-now"));
}

TEST(RunRequests, ASignalAsksToStopUntilSignalsAreRestored) {
  const TemporaryFolder folder;
  RunRequests requests(folder.path(), /*rank=*/0);
  EXPECT_FALSE(requests.poll().stop);
  std::raise(SIGUSR1);
  EXPECT_TRUE(requests.poll().stop);
  EXPECT_TRUE(requests.poll().stop);
  requests.restore_signals();
  EXPECT_FALSE(requests.stop_requested());
}

TEST(RunRequests, ADiscardedStepKeepsARequestToSaveButNotOneToStop) {
  const TemporaryFolder folder;
  RunRequests requests(folder.path(), /*rank=*/0);
  requests.agree({.stop = true, .save = true}, /*discarded=*/true);
  EXPECT_TRUE(requests.save_agreed());
  EXPECT_FALSE(requests.stop_agreed());
  requests.clear_save();
  requests.agree({.stop = true}, /*discarded=*/false);
  EXPECT_FALSE(requests.save_agreed());
  EXPECT_TRUE(requests.stop_agreed());
}

}  // namespace
}  // namespace packtrain
