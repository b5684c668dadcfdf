// Tests which folders count as checkpoints, which of them are usable, and which are kept.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <set>
#include <thread>

#include "framework/core/file.h"
#include "tests/helpers/temporary_folder.h"
#include "tests/parallel/communicators/thread_ranks.h"
#include "tests/training/checkpoint/sample_shards.h"
#include "training/checkpoint/checkpoint.h"
#include "training/checkpoint/folder_names.h"
#include "training/checkpoint/manifest.h"
#include "training/checkpoint/retention.h"

namespace packtrain::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRankFile = "/rank-00000-of-00001.safetensors";

TEST(FolderName, IsReadBackAsItIsWritten) {
  for (const FolderKind kind :
       {FolderKind::kFinal, FolderKind::kTemporary, FolderKind::kReplaced}) {
    const auto name = parse_folder_name(folder_name(120, kind));
    ASSERT_TRUE(name.has_value());
    EXPECT_EQ(name->step, 120);
    EXPECT_EQ(name->kind, kind);
  }
}

TEST(FolderName, OfOthersIsNotOurs) {
  for (const char* name : {"step-3.bak", "xstep-3", "step-", "step-03", "step--3", "step-+3",
                           "step-3 ", "step_3", "Step-3", "step-3.tmp.tmp", "step-3.old.tmp",
                           "step-0x3", "step-99999999999999999999", ""}) {
    EXPECT_FALSE(parse_folder_name(name).has_value()) << name;
  }
}

TEST(LatestCheckpoint, IsTheOneOfTheHighestStepByNumber) {
  const TemporaryFolder root;
  for (const int step : {9, 10, 2}) save_sample(root.path(), step);
  EXPECT_EQ(find_latest_checkpoint(root.path()), root / "step-10");
}

TEST(LatestCheckpoint, IsNothingWhereThereIsNone) {
  const TemporaryFolder root;
  EXPECT_FALSE(find_latest_checkpoint(root.path()).has_value());
  EXPECT_FALSE(find_latest_checkpoint(root / "missing").has_value());
}

TEST(WholeCheckpoint, IsNothingOnlyWhereNoneWasSaved) {
  const TemporaryFolder root;
  EXPECT_FALSE(find_whole_checkpoint(root.path()).has_value());
  fs::create_directory(root / "step-4.tmp");
  EXPECT_FALSE(find_whole_checkpoint(root.path()).has_value());
  fs::create_directory(root / "step-3");
  const Error error = error_of([&] { find_whole_checkpoint(root.path()); });
  EXPECT_EQ(error.category(), ErrorCategory::kCheckpoint);
  EXPECT_NE(error.message().find("is whole (1 were tried)"), std::string::npos) << error.what();
  save_sample(root.path(), 2);
  EXPECT_EQ(find_whole_checkpoint(root.path()), root / "step-2");
}

TEST(LatestCheckpoint, PassesOverForeignNamesAndFoldersBeingWritten) {
  const TemporaryFolder root;
  save_sample(root.path(), 3);
  for (const char* name : {"step-4.bak", "xstep-5", "step-6.tmp", "step-07"}) {
    fs::copy(root / "step-3", root / name);
  }
  EXPECT_EQ(find_latest_checkpoint(root.path()), root / "step-3");
}

TEST(LatestCheckpoint, PassesOverAFolderUnderTheNameOfAnotherStep) {
  const TemporaryFolder root;
  save_sample(root.path(), 3);
  fs::copy(root / "step-3", root / "step-8");
  EXPECT_EQ(find_latest_checkpoint(root.path()), root / "step-3");
}

// Each damage makes step-2 unusable; step-1 must be found.
class DamagedCheckpoint : public ::testing::TestWithParam<void (*)(const std::string& folder)> {};

TEST_P(DamagedCheckpoint, IsPassedOverForAnOlderOne) {
  const TemporaryFolder root;
  save_sample(root.path(), 1);
  GetParam()(save_sample(root.path(), 2));
  EXPECT_EQ(find_latest_checkpoint(root.path()), root / "step-1");
  EXPECT_TRUE(fs::exists(root / "step-2"));
  const auto shards = sample_shards(0, 1, false);
  const Error error = error_of([&] { load_checkpoint(root / "step-2", shards, true); });
  EXPECT_EQ(error.category(), ErrorCategory::kCheckpoint);
}

INSTANTIATE_TEST_SUITE_P(
    Damages, DamagedCheckpoint,
    ::testing::Values(
        [](const std::string& folder) { fs::remove(folder + "/manifest.json"); },
        [](const std::string& folder) { fs::resize_file(folder + "/manifest.json", 0); },
        [](const std::string& folder) { fs::resize_file(folder + "/manifest.json", 200); },
        [](const std::string& folder) { write_bytes(folder + "/manifest.json", "[]"); },
        [](const std::string& folder) { fs::remove(folder + kRankFile); },
        [](const std::string& folder) { fs::resize_file(folder + kRankFile, 0); },
        [](const std::string& folder) {
          fs::resize_file(folder + kRankFile, fs::file_size(folder + kRankFile) - 1);
        },
        [](const std::string& folder) {
          fs::resize_file(folder + kRankFile, fs::file_size(folder + kRankFile) + 1);
        }));

TEST(Load, RefusesAFileWithOneBitFlippedAnywhere) {
  const TemporaryFolder root;
  const std::string path = save_sample(root.path(), 1) + kRankFile;
  const std::string good = read_text(path, ErrorCategory::kInternal);
  for (std::size_t byte = 0; byte < good.size(); byte += 37) {
    std::string bad = good;
    bad[byte] = static_cast<char>(bad[byte] ^ 4);
    write_bytes(path, bad);
    const auto shards = sample_shards(0, 1, false);
    const Error error = error_of([&] { load_checkpoint(root / "step-1", shards, true); });
    EXPECT_EQ(error.category(), ErrorCategory::kCheckpoint) << "byte " << byte;
    EXPECT_NE(error.message().find("rank-00000-of-00001"), std::string::npos) << error.message();
  }
}

TEST(Load, RefusesAFileOfAnotherCheckpoint) {
  const TemporaryFolder root;
  save_sample(root.path(), 1, 2);
  fs::copy_file(root / "step-1/rank-00001-of-00002.safetensors",
                root / "step-1/rank-00000-of-00002.safetensors",
                fs::copy_options::overwrite_existing);
  const auto shards = sample_shards(0, 1, false);
  const Error error = error_of([&] { load_checkpoint(root / "step-1", shards, true); });
  EXPECT_EQ(error.category(), ErrorCategory::kCheckpoint);
}

TEST(Manifest, IsRefusedWithThePlaceOfItsFault) {
  Manifest manifest;
  manifest.state = sample_state(1);
  manifest.state.num_ranks = 1;
  manifest.files.push_back({rank_file_name(0, 1), 100, "00"});
  manifest.parameters["embed"] = {7, 4};
  const std::string good = manifest_text(manifest);
  const struct {
    const char* from;
    const char* to;
    const char* fault;
  } cases[] = {
      {"\"version\": 1", "\"version\": 2", "format version 2"},
      {"\"version\": 1", "\"version\": 1, \"requires\": [\"adapters\"]",
       "needs 'adapters', which this version does not know"},
      {"\"version\": 1", "\"version\": 1, \"requires\": [1]", "'requires' is no list of texts"},
      {"\"packtrain-checkpoint\"", "\"other\"", "'format'"},
      {"rank-00000-of-00001.safetensors", "../../etc/passwd", "../../etc/passwd"},
      {"\"num_ranks\": 1", "\"num_ranks\": 2", "list of 2 files"},
      {"\"num_ranks\": 1", "\"num_ranks\": 0", "list of 0 files"},
      {"\"size\": 100", "\"size\": -100", "'size'"},
      {"\"size\": 100", "\"size\": 1e400", "JSON"},
      {"\"step\": 1", "\"step\": 9223372036854775808", "'step'"},
      {"\"step\": 1", "\"step\": 1.5", "'step'"},
      {"\"epoch\": 2,", "", "no 'epoch'"},
      {"   7,", "   9223372036854775807,", "overflows"},
      {"   7,", "   -7,", "'embed'"},
      {"\"epoch\": 2,", "\"epoch\": 2, \"epoch\": 2,", "the key 'epoch' twice"},
      {"\"epoch\": 2,", "\"epoch\": 2, \"reference_digest\": 5,", "'reference_digest'"},
      {"\"epoch\": 2,", "\"epoch\": 2, \"resumed_from\": 5,", "'resumed_from' is not a list"},
      {"\"epoch\": 2,", "\"epoch\": 2, \"resumed_from\": [{\"folder\": \"a\"}],", "no 'step'"},
      {"\"version\": 1", "\"version\": 1, \"encoded\": {\"embed\": 5}", "no 'shape'"},
      {"\"version\": 1",
       "\"version\": 1, \"encoded\": {\"embed\": {\"shape\": [7], \"tensors\": [7], "
       "\"format\": 5}}",
       "'format'"},
  };
  for (const auto& [from, to, fault] : cases) {
    std::string bad = good;
    const std::size_t place = bad.find(from);
    ASSERT_NE(place, std::string::npos) << from;
    bad.replace(place, std::string_view(from).size(), to);
    const Error error = error_of([&] { parse_manifest(bad, "step-1/manifest.json"); });
    EXPECT_EQ(error.category(), ErrorCategory::kCheckpoint);
    EXPECT_NE(error.message().find(fault), std::string::npos) << error.message();
  }
  EXPECT_EQ(parse_manifest(good, "").parameters, manifest.parameters);
  EXPECT_EQ(good.find("requires"), std::string::npos) << "written only when needed";
  manifest.requirements = {"adapters"};
  const Error newer = error_of([&] { parse_manifest(manifest_text(manifest), "manifest.json"); });
  EXPECT_EQ(newer.message(), "manifest.json: needs 'adapters', which this version does not know");
  EXPECT_EQ(newer.advice(), "Use a newer packtrain.");
}

TEST(Manifest, OfANewerVersionIsNeitherPassedOverNorRemoved) {
  const TemporaryFolder root;
  for (const std::int64_t step : {1, 2, 3, 4}) save_sample(root.path(), step);
  const std::string path = root / "step-4/manifest.json";
  std::string text = read_text(path, ErrorCategory::kCheckpoint);
  text.insert(text.find("\"version\""), "\"requires\": [\"adapters\"], ");
  write_bytes(path, text);
  const auto message = [](const Error& error) { return error.message(); };
  const std::string wanted = path + ": needs 'adapters', which this version does not know";
  EXPECT_EQ(message(error_of([&] { find_latest_checkpoint(root.path()); })), wanted);
  run_ranks(1, [&](Communicator& control) {
    EXPECT_EQ(message(error_of([&] { find_resumable_checkpoint(root.path(), {}, control); })),
              wanted);
  });
  remove_old_checkpoints(root.path(), {.num_newest = 2}, 3);
  EXPECT_TRUE(fs::exists(path));
  EXPECT_FALSE(fs::exists(root / "step-1"));
  EXPECT_TRUE(fs::exists(root / "step-2"));
}

TEST(ResumableCheckpoint, AHostThatSeesTheFolderLateResumesFromWhatRankZeroFound) {
  const TemporaryFolder first;
  const TemporaryFolder late;  // the same root, as the host of rank 1 knows it
  for (const std::int64_t step : {1, 2}) save_sample(first.path(), step);
  fs::copy(first / "step-1", late / "step-1", fs::copy_options::recursive);
  run_ranks(2, [&](Communicator& control) {
    const std::string root = control.rank() == 0 ? first.path() : late.path();
    std::thread server;
    if (control.rank() == 1) {
      server = std::thread([&] {
        std::this_thread::sleep_for(std::chrono::seconds(1));
        fs::copy(first / "step-2", late / "step-2", fs::copy_options::recursive);
      });
    }
    EXPECT_EQ(find_resumable_checkpoint(root, {}, control), root + "/step-2");
    if (server.joinable()) server.join();
  });
}

}  // namespace
}  // namespace packtrain::test
