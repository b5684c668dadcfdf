#include "training/setup/gpu_assignment.h"

#include <gtest/gtest.h>

namespace packtrain {
namespace {

using Indices = std::vector<std::optional<int>>;
const std::vector<std::string> kAll = {"0000:1B:00.0", "0000:43:00.0"};
const std::vector<std::string> kFirst = {"0000:1B:00.0"};
const std::vector<std::string> kSecond = {"0000:43:00.0"};

TEST(GpuAssignment, RanksThatSeeAllTakeOneEachInOrder) {
  const std::vector<GpusOfRank> ranks = {{"a", kAll}, {"a", kAll}, {"b", kAll}, {"b", kAll}};
  EXPECT_EQ(assign_gpus(ranks), Indices({0, 1, 0, 1}));
  EXPECT_EQ(find_shared_gpu(ranks), "");
}

TEST(GpuAssignment, ARankThatSeesOneTakesIt) {
  const std::vector<GpusOfRank> ranks = {{"a", kFirst}, {"a", kSecond}, {"b", kFirst}};
  EXPECT_EQ(assign_gpus(ranks), Indices({0, 0, 0}));
  EXPECT_EQ(find_shared_gpu(ranks), "");
}

TEST(GpuAssignment, ARankOfManyMaySeeSeveralOfItsOwn) {
  const std::vector<GpusOfRank> ranks = {
      {"a", kAll}, {"a", {"0000:61:00.0", "0000:62:00.0"}}, {"a", kAll}};
  EXPECT_EQ(assign_gpus(ranks), Indices({0, 0, 1}));
  EXPECT_EQ(find_shared_gpu(ranks), "");
}

TEST(GpuAssignment, TwoRanksThatSeeTheSameOneAreBothNamed) {
  const std::string refusal =
      find_shared_gpu({{"a", kSecond}, {"a", kFirst}, {"b", kFirst}, {"a", kFirst}});
  EXPECT_NE(refusal.find("ranks 1 and 3 would share GPU 0000:1B:00.0"), std::string::npos)
      << refusal;
  EXPECT_NE(refusal.find("3 ranks were started on host a, which has 1 GPUs"), std::string::npos)
      << refusal;
}

TEST(GpuAssignment, OverlappingViewsAreFoundByTheBusId) {
  EXPECT_EQ(find_shared_gpu({{"a", kAll}, {"a", kFirst}}),
            "ranks 0 and 1 on host a would share GPU 0000:1B:00.0");
}

TEST(GpuAssignment, ARankThatSeesNoneIsNamed) {
  EXPECT_EQ(find_shared_gpu({{"a", kFirst}, {"a", {}}}),
            "2 ranks were started on host a, which has 0 GPUs for rank 1");
}

TEST(GpuAssignment, EqualBusIdsOfTwoHostsAreTwoGpus) {
  EXPECT_EQ(find_shared_gpu({{"a", kFirst}, {"b", kFirst}}), "");
}

}  // namespace
}  // namespace packtrain
