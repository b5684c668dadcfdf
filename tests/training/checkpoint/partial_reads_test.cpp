// Tests that reading a part of a checkpoint opens, reads and checks that part alone.
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "framework/core/file.h"
#include "tests/helpers/temporary_folder.h"
#include "tests/parallel/communicators/thread_ranks.h"
#include "tests/training/checkpoint/sample_shards.h"
#include "training/checkpoint/checkpoint.h"
#include "training/checkpoint/manifest.h"

namespace packtrain::test {
namespace {

constexpr std::int64_t kLargeNumel = 2 << 20;  // 8 MiB of float32: 32 blocks
constexpr std::uint64_t kBlock = 256 << 10;

ShardView frozen_part(const std::string& name, std::int64_t numel, std::int64_t begin,
                      std::int64_t end) {
  ShardView part{name, {numel}, begin, end - begin, /*trainable=*/false, {}, {}};
  part.weight = at::empty({end - begin}, at::kFloat);
  return part;
}

// One parameter, saved by `num_ranks` ranks of equal parts.
std::string save_one(const std::string& root, std::int64_t numel, int num_ranks) {
  run_ranks(num_ranks, [&](Communicator& control) {
    const std::int64_t share = numel / num_ranks;
    std::vector<ShardView> shards{
        frozen_part("one", numel, control.rank() * share, (control.rank() + 1) * share)};
    shards[0].weight.copy_(at::arange(shards[0].begin, shards[0].begin + share, at::kFloat));
    save_checkpoint(root, sample_state(1), shards, {1}, control);
  });
  return root + "/step-1";
}

bool is_as_saved(const ShardView& part) {
  return at::equal(part.weight, at::arange(part.begin, part.begin + part.numel, at::kFloat));
}

TEST(PartialRead, OfSixtyFourRanksOpensTheManifestAndTheRanksOwnFile) {
  const TemporaryFolder root;
  const std::string folder = save_sample(root.path(), 1, 64);
  for (int rank = 0; rank < 64; ++rank) {
    const auto shards = sample_shards(rank, 64, false);
    const ReadCounts counts = load_checkpoint(folder, shards, true);
    EXPECT_EQ(num_wrong_elements(shards), 0);
    EXPECT_EQ(counts.num_opens, shards.empty() ? 1 : 2) << "rank " << rank;
  }
}

TEST(PartialRead, OpensTheFilesOfTheRanksThatHadThePart) {
  const TemporaryFolder root;
  const std::string folder = save_sample(root.path(), 1, 49);
  const auto shards = sample_shards(2, 7, false);  // seven elements
  EXPECT_EQ(load_checkpoint(folder, shards, true).num_opens, 1 + 7);
  EXPECT_EQ(num_wrong_elements(shards), 0);
}

TEST(PartialRead, OfMoreFilesThanAProcessMayOpenReadsAll) {
  const TemporaryFolder root;
  const std::string folder = save_one(root.path(), 150, 150);
  std::vector<ShardView> whole{frozen_part("one", 150, 0, 150)};
  load_checkpoint(folder, whole, false);
  EXPECT_TRUE(is_as_saved(whole[0]));
}

TEST(PartialRead, ReadsOnlyTheBlocksThatHoldThePart) {
  const TemporaryFolder root;
  const std::string folder = save_one(root.path(), kLargeNumel, 1);
  const std::int64_t share = kLargeNumel / 64;
  for (int rank = 0; rank < 64; ++rank) {
    const std::int64_t end = std::min((rank + 1) * share + 1, kLargeNumel);
    std::vector<ShardView> part{frozen_part("one", kLargeNumel, rank * share + 1, end)};
    const ReadCounts counts = load_checkpoint(folder, part, false);
    EXPECT_TRUE(is_as_saved(part[0])) << "rank " << rank;
    EXPECT_LE(counts.num_bytes, 2 * kBlock + 8192) << "rank " << rank;
  }
}

TEST(PartialRead, IsRefusedForADamagedBlockOfItsOwnOnly) {
  const TemporaryFolder root;
  const std::string folder = save_one(root.path(), kLargeNumel, 1);
  const std::string path = folder + "/rank-00000-of-00001.safetensors";
  std::string bytes = read_text(path, ErrorCategory::kInternal);
  bytes[bytes.size() - 100] = static_cast<char>(bytes[bytes.size() - 100] ^ 1);
  write_bytes(path, bytes);
  std::vector<ShardView> first{frozen_part("one", kLargeNumel, 0, kLargeNumel / 2)};
  load_checkpoint(folder, first, false);
  EXPECT_TRUE(is_as_saved(first[0]));
  std::vector<ShardView> second{frozen_part("one", kLargeNumel, kLargeNumel / 2, kLargeNumel)};
  const Error error = error_of([&] { load_checkpoint(folder, second, false); });
  EXPECT_NE(error.message().find("block 31 of 'weight/one@0'"), std::string::npos)
      << error.message();
}

TEST(PartialRead, FollowsHeadersWhereTheManifestHasNoRanges) {
  const TemporaryFolder root;
  const std::string folder = save_sample(root.path(), 1, 3);
  Manifest manifest = read_checkpoint_manifest(folder);
  for (CheckpointFile& file : manifest.files) {
    EXPECT_FALSE(file.ranges.empty());
    file.ranges.clear();
  }
  write_bytes(folder + "/manifest.json", manifest_text(manifest));
  const auto shards = sample_shards(1, 2, false);
  load_checkpoint(folder, shards, true);
  EXPECT_EQ(num_wrong_elements(shards), 0);
}

TEST(PartialRead, ChecksWholeFilesOfCheckpointsWithoutDigestsOfHeaders) {
  const TemporaryFolder root;
  const std::string folder = save_sample(root.path(), 1, 2);
  Manifest manifest = read_checkpoint_manifest(folder);
  for (CheckpointFile& file : manifest.files) {
    file.ranges.clear();
    file.header_digest.clear();
    file.header_size = 0;
  }
  write_bytes(folder + "/manifest.json", manifest_text(manifest));
  const auto shards = sample_shards(0, 2, false);
  load_checkpoint(folder, shards, true);
  EXPECT_EQ(num_wrong_elements(shards), 0);
  const std::string path = folder + "/rank-00000-of-00002.safetensors";
  std::string bytes = read_text(path, ErrorCategory::kInternal);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_bytes(path, bytes);
  const Error error = error_of([&] { load_checkpoint(folder, shards, true); });
  EXPECT_NE(error.message().find("has the digest"), std::string::npos) << error.message();
}

}  // namespace
}  // namespace packtrain::test
