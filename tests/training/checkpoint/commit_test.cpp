// Saving when something is in the way: failures of one rank, leftovers, the same step twice.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "framework/core/file.h"
#include "tests/helpers/temporary_folder.h"
#include "tests/parallel/communicators/thread_ranks.h"
#include "tests/training/checkpoint/sample_shards.h"
#include "training/checkpoint/checkpoint.h"
#include "training/checkpoint/retention.h"

namespace packtrain::test {
namespace {

namespace fs = std::filesystem;

int num_entries(const std::string& folder) {
  int count = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(folder)) ++count;
  return count;
}

TEST(Commit, FailsOnEveryRankWhenOneRankFailsAndLeavesOlderCheckpoints) {
  const TemporaryFolder root;
  save_sample(root.path(), 1, 3);
  std::vector<std::string> messages(3);
  run_ranks(3, [&](Communicator& control) {
    auto shards = sample_shards(control.rank(), 3, true);
    if (control.rank() == 1) shards[0].weight = at::Tensor();
    const Error error =
        error_of([&] { save_checkpoint(root.path(), sample_state(2), shards, {3}, control); });
    EXPECT_EQ(error.category(), ErrorCategory::kCheckpoint);
    messages[static_cast<std::size_t>(control.rank())] = error.message();
  });
  EXPECT_NE(messages[0].find("step-2 was not saved: rank 1: weight of"), std::string::npos)
      << messages[0];
  EXPECT_EQ(messages[0], messages[1]);
  EXPECT_EQ(messages[0], messages[2]);
  EXPECT_EQ(num_entries(root.path()), 1);
  EXPECT_EQ(find_latest_checkpoint(root.path()), root / "step-1");
}

TEST(Commit, FailsOnEveryRankWhenTheFolderCannotBeMade) {
  const TemporaryFolder root;
  write_bytes(root / "checkpoints", "a file");
  run_ranks(2, [&](Communicator& control) {
    const auto shards = sample_shards(control.rank(), 2, true);
    const Error error = error_of(
        [&] { save_checkpoint(root / "checkpoints", sample_state(2), shards, {3}, control); });
    EXPECT_NE(error.message().find("rank 0: " + root.path()), std::string::npos) << error.message();
  });
}

TEST(Commit, KeepsASingleOneWhereThatIsWanted) {
  const TemporaryFolder root;
  for (const int step : {1, 2, 3}) save_sample(root.path(), step, 1, /*keep=*/1);
  EXPECT_EQ(num_entries(root.path()), 1);
  EXPECT_EQ(find_latest_checkpoint(root.path()), root / "step-3");
}

TEST(Commit, FreesSpaceByRemovingTheOldest) {
  const TemporaryFolder root;
  for (const int step : {1, 2, 3, 4}) save_sample(root.path(), step);
  free_disk_space(root.path(), {3}, 1);
  EXPECT_EQ(num_entries(root.path()), 3);
  EXPECT_FALSE(fs::exists(root / "step-1"));
}

TEST(Commit, FreesNoSpaceThatACommandReads) {
  const TemporaryFolder root;
  for (const int step : {1, 2, 3}) save_sample(root.path(), step);
  free_disk_space(root.path(), {.num_newest = 1, .steps_in_use = {1}}, 1);
  EXPECT_TRUE(fs::exists(root / "step-1"));
  EXPECT_FALSE(fs::exists(root / "step-2"));
}

TEST(Commit, FreesSpaceByRemovingTheOnlyOneWhereOneIsKept) {
  const TemporaryFolder root;
  save_sample(root.path(), 1);
  free_disk_space(root.path(), {2}, 1);
  EXPECT_EQ(num_entries(root.path()), 1);
  free_disk_space(root.path(), {1}, 1);
  EXPECT_EQ(num_entries(root.path()), 0);
}

TEST(Commit, RemovesNothingWhereThatFreesTooLittleSpace) {
  const TemporaryFolder root;
  for (const int step : {1, 2}) save_sample(root.path(), step);
  free_disk_space(root.path(), {1}, std::uint64_t{1} << 40U);
  EXPECT_EQ(num_entries(root.path()), 2);
}

TEST(Commit, RefusesBeforehandWhenTheSpaceDoesNotSuffice) {
  const TemporaryFolder root;
  run_ranks(1, [&](Communicator& control) {
    auto shards = sample_shards(0, 1, true);
    // Exabytes in a view of one element.
    shards[0].weight = shards[0].weight.narrow(0, 0, 1).expand({std::int64_t{1} << 58U});
    const Error error =
        error_of([&] { save_checkpoint(root.path(), sample_state(2), shards, {3}, control); });
    EXPECT_NE(error.message().find("a checkpoint takes 1073741824.00 GiB"), std::string::npos)
        << error.message();
    EXPECT_NE(error.advice().find("Free 10"), std::string::npos) << error.advice();
  });
  EXPECT_EQ(num_entries(root.path()), 0);
}

TEST(Commit, ReplacesTheSameStepByTheNewSave) {
  const TemporaryFolder root;
  save_sample(root.path(), 5, 3);
  save_sample(root.path(), 5, 2);
  EXPECT_EQ(num_entries(root.path()), 1);
  EXPECT_EQ(read_checkpoint_state(root / "step-5").num_ranks, 2);
  EXPECT_FALSE(fs::exists(root / "step-5/rank-00002-of-00003.safetensors"));
}

TEST(Commit, ReplacesADamagedFolderOfTheSameStep) {
  const TemporaryFolder root;
  write_bytes(save_sample(root.path(), 5) + "/manifest.json", "{");
  save_sample(root.path(), 5, 2);
  EXPECT_EQ(num_entries(root.path()), 1);
  EXPECT_EQ(find_latest_checkpoint(root.path()), root / "step-5");
}

TEST(Commit, FindsTheOldOneWhenACrashFellBetweenTheTwoRenames) {
  const TemporaryFolder root;
  save_sample(root.path(), 5);
  fs::rename(root / "step-5", root / "step-5.old");
  EXPECT_EQ(find_latest_checkpoint(root.path()), root / "step-5.old");
  save_sample(root.path(), 6);
  EXPECT_FALSE(fs::exists(root / "step-5.old"));
  EXPECT_TRUE(is_checkpoint(root / "step-5"));
}

TEST(Commit, RemovesWhatWasReplacedWhenACrashLeftIt) {
  const TemporaryFolder root;
  fs::rename(save_sample(root.path(), 5), root / "step-5.old");
  save_sample(root.path(), 4);
  fs::rename(root / "step-5", root / "step-5.old");  // the save of step 4 had put it back
  const std::string folder = save_sample(root.path(), 5, 2);
  EXPECT_FALSE(fs::exists(root / "step-5.old"));
  EXPECT_EQ(read_checkpoint_state(folder).num_ranks, 2);
}

TEST(Commit, RemovesLeftoversOfExactNamesOnly) {
  const TemporaryFolder root;
  for (const char* name : {"step-3.tmp", "xstep-3.tmp", "step-3.tmp.bak", "step-03.tmp", "tmp"}) {
    make_folders(root / name, ErrorCategory::kInternal);
    write_bytes(root / name + "/rank-00000-of-00001.safetensors", "cut short");
  }
  save_sample(root.path(), 4);
  EXPECT_FALSE(fs::exists(root / "step-3.tmp"));
  EXPECT_EQ(num_entries(root.path()), 5);  // the other four and step-4
}

TEST(Commit, NeverRemovesFilesThatItDidNotWrite) {
  const TemporaryFolder root;
  make_folders(root / "step-3.tmp", ErrorCategory::kInternal);
  write_bytes(root / "step-3.tmp/notes.txt", "mine");
  save_sample(root.path(), 4);
  EXPECT_TRUE(fs::exists(root / "step-3.tmp/notes.txt"));
  const Error error = error_of([&] { save_sample(root.path(), 3); });
  EXPECT_NE(error.message().find("step-3.tmp: is in the way"), std::string::npos)
      << error.message();
}

}  // namespace
}  // namespace packtrain::test
