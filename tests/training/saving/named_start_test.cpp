// Tests from which checkpoint a run starts whose checkpoint.resume names one.
#include "training/saving/named_start.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "framework/core/error.h"
#include "tests/helpers/temporary_folder.h"
#include "training/checkpoint/folder_names.h"
#include "training/checkpoint/manifest.h"

namespace packtrain::test {
namespace {

NamedCheckpoint as_named(const std::string& folder) {
  return named_checkpoint(folder, read_checkpoint_manifest(folder));
}

namespace fs = std::filesystem;

// A checkpoint of one rank file. `contents` stands for its weights.
std::string save(const std::string& root, std::int64_t step, char contents,
                 const std::vector<NamedCheckpoint>& resumed_from = {}) {
  std::string folder = folder_path(root, step);
  fs::create_directories(folder);
  Manifest manifest;
  manifest.state.step = step;
  manifest.state.resumed_from = resumed_from;
  manifest.files.push_back({rank_file_name(0, 1), 1, std::string(32, contents)});
  write_bytes(folder + "/" + rank_file_name(0, 1), std::string(1, contents));
  write_bytes(folder + "/" + kManifestName, manifest_text(manifest));
  return folder;
}

TEST(NamedStart, IsTheNamedCheckpointWhereNothingIsNewer) {
  const TemporaryFolder run;
  const TemporaryFolder other;
  const std::string named = save(other.path(), 4, 'a');
  EXPECT_EQ(find_named_start(named, run / "checkpoints", {}), named);
  save(run.path(), 2, 'b');
  EXPECT_EQ(find_named_start(named, run.path(), {}), named);
}

TEST(NamedStart, IsTheNewestDescendant) {
  const TemporaryFolder run;
  const TemporaryFolder other;
  const std::string named = save(other.path(), 4, 'a');
  const std::vector<NamedCheckpoint> descent = {{"/elsewhere/step-1", 1, "d"}, as_named(named)};
  save(run.path(), 6, 'b', descent);
  const std::string newest = save(run.path(), 8, 'c', descent);
  EXPECT_EQ(find_named_start(named, run.path(), {}), newest);
  EXPECT_EQ(find_named_start(named, run.path(), {newest}), run / "step-6");
  fs::remove(newest + "/" + rank_file_name(0, 1));
  EXPECT_EQ(find_named_start(named, run.path(), {}), run / "step-6");
}

TEST(NamedStart, KnowsACopyOfTheNamedCheckpointByItsContents) {
  const TemporaryFolder run;
  const TemporaryFolder other;
  const std::string named = save(other.path(), 4, 'a');
  const std::string newest = save(run.path(), 6, 'b', {as_named(named)});
  const TemporaryFolder restored;
  EXPECT_EQ(find_named_start(save(restored.path(), 4, 'a'), run.path(), {}), newest);
  const std::string rewritten = save(other.path(), 4, 'z');
  EXPECT_EQ(error_of([&] { find_named_start(rewritten, run.path(), {}); }).category(),
            ErrorCategory::kConfig);
}

TEST(NamedStart, KnowsACheckpointThatIsGoneByItsPath) {
  const TemporaryFolder run;
  save(run.path(), 2, 'b');
  const std::string named = save(run.path(), 4, 'a');
  const std::string newest = save(run.path(), 6, 'c', {as_named(named)});
  fs::remove_all(named);
  EXPECT_EQ(find_named_start(named + "/", run.path(), {}), newest);
  fs::remove_all(newest);
  const Error error = error_of([&] { find_named_start(named, run.path(), {}); });
  EXPECT_EQ(error.category(), ErrorCategory::kCheckpoint);
  EXPECT_NE(error.message().find(named), std::string::npos) << error.what();
}

TEST(NamedStart, RefusesASecondBranchInTheSameFolder) {
  const TemporaryFolder run;
  const std::string named = save(run.path(), 4, 'a');
  save(run.path(), 6, 'b');
  save(run.path(), 8, 'c', {{"/elsewhere/step-1", 1, "d"}});
  const Error error = error_of([&] { find_named_start(named, run.path(), {}); });
  EXPECT_EQ(error.category(), ErrorCategory::kConfig);
  EXPECT_NE(error.message().find("do not descend from it: step-8, step-6"), std::string::npos)
      << error.what();
  EXPECT_NE(error.advice().find("run.output"), std::string::npos);
  fs::remove_all(run / "step-6");
  save(run.path(), 8, 'c', {as_named(named)});
  EXPECT_EQ(find_named_start(named, run.path(), {}), run / "step-8");
}

TEST(NamedStart, AnAmendedManifestKeepsTheDigest) {
  const TemporaryFolder run;
  const std::string folder = save(run.path(), 4, 'a');
  const std::string before = as_named(folder).digest;
  Manifest manifest = read_checkpoint_manifest(folder);
  manifest.state.validation_loss = 1.5;
  write_bytes(folder + "/" + kManifestName, manifest_text(manifest));
  EXPECT_EQ(as_named(folder).digest, before);
}

}  // namespace
}  // namespace packtrain::test
