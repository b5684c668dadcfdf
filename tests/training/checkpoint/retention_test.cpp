// Tests which checkpoints of a folder are kept, and that the choice reads only what is new.
#include "training/checkpoint/retention.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "tests/helpers/temporary_folder.h"
#include "tests/training/checkpoint/sample_shards.h"
#include "training/checkpoint/checkpoint.h"
#include "training/checkpoint/manifest_cache.h"

namespace packtrain::test {
namespace {

namespace fs = std::filesystem;

std::set<std::string> names_in(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

TEST(Retention, KeepsTheNewestAsManyAsAskedFor) {
  const TemporaryFolder root;
  for (int step = 1; step <= 5; ++step) save_sample(root.path(), step, 1, 3);
  EXPECT_EQ(names_in(root.path()), (std::set<std::string>{"step-3", "step-4", "step-5"}));
}

TEST(Retention, ReadsNoManifestAgainThatHasNotChanged) {
  const TemporaryFolder root;
  ManifestCache manifests;
  const Retention keep{.num_newest = 4, .num_best = 1, .manifests = &manifests};
  for (std::int64_t step = 1; step <= 4; ++step) save_sample(root.path(), step);
  remove_old_checkpoints(root.path(), keep, 4);
  EXPECT_EQ(manifests.num_read(), 4);
  TrainingState state = sample_state(1);
  state.validation_loss = 0.5;
  amend_checkpoint(root.path(), state, keep);
  EXPECT_EQ(manifests.num_read(), 5);
  save_sample(root.path(), 5);
  remove_old_checkpoints(root.path(), keep, 5);
  EXPECT_EQ(manifests.num_read(), 6);
  EXPECT_EQ(names_in(root.path()),
            (std::set<std::string>{"step-1", "step-2", "step-3", "step-4", "step-5"}));
  save_sample(root.path(), 6);
  remove_old_checkpoints(root.path(), keep, 6);
  EXPECT_EQ(names_in(root.path()),
            (std::set<std::string>{"step-1", "step-3", "step-4", "step-5", "step-6"}));
  EXPECT_EQ(manifests.num_read(), 7);
}

TEST(Retention, SeesAFileThatIsGoneAlthoughItKnowsTheManifest) {
  const TemporaryFolder root;
  ManifestCache manifests;
  const StoredFolder folder{{1, FolderKind::kFinal}, save_sample(root.path(), 1)};
  EXPECT_FALSE(find_fault(folder, manifests).has_value());
  fs::remove(folder.path + "/rank-00000-of-00001.safetensors");
  EXPECT_TRUE(find_fault(folder, manifests).has_value());
}

TEST(Retention, NeverRemovesWhatWasJustSaved) {
  const TemporaryFolder root;
  for (int step = 1; step <= 4; ++step) save_sample(root.path(), step, 1, 0);
  EXPECT_EQ(names_in(root.path()), (std::set<std::string>{"step-4"}));
}

TEST(Retention, NeitherCountsNorRemovesWhatIsDamagedOrForeign) {
  const TemporaryFolder root;
  for (const int step : {1, 2, 3}) save_sample(root.path(), step);
  write_bytes(root / "step-3/manifest.json", "{");
  for (const char* name : {"step-0.bak", "xstep-0", "step-00"}) {
    fs::copy(root / "step-1", root / name);
  }
  fs::create_directory_symlink(root / "step-1", root / "step-9");
  save_sample(root.path(), 4, 1, 2);
  EXPECT_EQ(names_in(root.path()), (std::set<std::string>{"step-0.bak", "xstep-0", "step-00",
                                                          "step-2", "step-3", "step-4", "step-9"}));
}

TEST(Retention, KeepsWhatACommandReads) {
  const TemporaryFolder root;
  for (const int step : {1, 2, 3, 4}) save_sample(root.path(), step);
  remove_old_checkpoints(root.path(), {.num_newest = 1, .steps_in_use = {2}}, 4);
  EXPECT_EQ(names_in(root.path()), (std::set<std::string>{"step-2", "step-4"}));
  remove_old_checkpoints(root.path(), {.num_newest = 1}, 4);
  EXPECT_EQ(names_in(root.path()), (std::set<std::string>{"step-4"}));
}

TEST(Retention, NeverRemovesTheOneJustSaved) {
  const TemporaryFolder root;
  for (const int step : {20, 30}) save_sample(root.path(), step);
  save_sample(root.path(), 10, 1, 2);  // a run taken up again from an early checkpoint
  EXPECT_EQ(names_in(root.path()), (std::set<std::string>{"step-10", "step-20", "step-30"}));
}

}  // namespace
}  // namespace packtrain::test
