// Doctor of many ranks: played in one process.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <string>
#include <vector>

#include "launch/doctor/judgement.h"
#include "launch/doctor/limits.h"
#include "launch/doctor/probe_watch.h"
#include "launch/doctor/probes.h"
#include "launch/doctor/speeds.h"

namespace packtrain {
namespace {

constexpr int kRanksOfHost = 8;
constexpr std::int64_t kMiB = std::int64_t{1} << 20U;

class DoctorAtScale : public testing::TestWithParam<int> {
 protected:
  int num_ranks_ = GetParam();

  std::vector<Facts> facts(std::int64_t open_files, std::int64_t processes,
                           std::int64_t shared_memory) const {
    std::vector<Facts> all;
    for (int rank = 0; rank < num_ranks_; ++rank) {
      all.push_back({{"rank", rank},
                     {"host", "node" + std::to_string(rank / kRanksOfHost)},
                     {"gpu", Facts::object()},
                     {"open_files", open_files},
                     {"user_processes", processes},
                     {"shared_memory_bytes", shared_memory}});
    }
    return all;
  }

  static Finding limits_of(const std::vector<Facts>& all) {
    for (const Finding& finding : judge(all)) {
      if (finding.check == "limits") return finding;
    }
    return {};
  }
};

TEST_P(DoctorAtScale, OpenFilesAreJudgedByTheRanks) {
  const Finding usual = limits_of(facts(1024, 4096, 1024 * kMiB));
  EXPECT_EQ(usual.verdict, num_ranks_ > 512 ? Verdict::kSlow : Verdict::kOk) << usual.text;
  const Finding raised = limits_of(facts(512 + num_ranks_ + 512, 4096, 1024 * kMiB));
  EXPECT_EQ(raised.verdict, Verdict::kOk) << raised.text;
}

TEST_P(DoctorAtScale, ThreadsAndSharedMemoryAreJudgedByTheRanksOfAHost) {
  const Finding few_threads = limits_of(facts(1 << 20, 1023, 1024 * kMiB));
  EXPECT_NE(few_threads.text.find("wanted 1024: rank 0 on node0"), std::string::npos)
      << few_threads.text;
  EXPECT_NE(few_threads.advice.find("ulimit -u"), std::string::npos);
  const Finding little_memory = limits_of(facts(1 << 20, 4096, 127 * kMiB));
  EXPECT_NE(little_memory.text.find("wanted 128 MiB"), std::string::npos) << little_memory.text;
  EXPECT_EQ(limits_of(facts(1 << 20, 1024, 128 * kMiB)).verdict, Verdict::kOk);
}

TEST_P(DoctorAtScale, AllRanksTogetherWriteAtMostFourGiBAtATime) {
  EXPECT_LE(disk_test_bytes(num_ranks_), 16U * kMiB);
  EXPECT_GE(disk_test_bytes(num_ranks_), kMiB / 2);
  EXPECT_LE(disk_test_bytes(num_ranks_) * static_cast<std::size_t>(num_ranks_), 4096U * kMiB);
}

TEST_P(DoctorAtScale, ADiskThatIsFastEnoughForAllTogetherIsOk) {
  std::vector<Facts> all = facts(1 << 20, 4096, 1024 * kMiB);
  for (Facts& f : all) {
    f["disk_folder"] = "/runs";
    f["disk_mb_s"] = std::min(5.0, 2000.0 / num_ranks_);
  }
  for (const Finding& finding : judge(all)) {
    EXPECT_TRUE(finding.check != "disk" || finding.verdict == Verdict::kOk) << finding.text;
  }
}

TEST_P(DoctorAtScale, TheKnownSumIsExactInFloat32) {
  float upwards = 0;
  float downwards = 0;
  for (int rank = 0; rank < num_ranks_; ++rank) {
    upwards += summand_of(rank);
    downwards += summand_of(num_ranks_ - 1 - rank);
  }
  EXPECT_EQ(upwards, sum_of_summands(num_ranks_));
  EXPECT_EQ(downwards, sum_of_summands(num_ranks_));
}

TEST_P(DoctorAtScale, TheLimitGrowsWithTheRanks) {
  EXPECT_EQ(probe_limit_s(num_ranks_), 60 + num_ranks_ / 20.0);
}

TEST_P(DoctorAtScale, JudgesWithinSeconds) {
  const std::vector<Facts> all = facts(1024, 64, kMiB);  // all of them have something wrong
  const auto begin = std::chrono::steady_clock::now();
  judge(all);
  const std::chrono::duration<double> lasted = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(lasted.count(), 5) << num_ranks_ << " ranks";
}

INSTANTIATE_TEST_SUITE_P(Ranks, DoctorAtScale, testing::Values(8, 64, 512, 4096, 8192));

}  // namespace
}  // namespace packtrain
