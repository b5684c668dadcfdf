// Saving and loading across processes: an allgather between them, one file system below them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "parallel/communicators/world.h"
#include "tests/helpers/temporary_folder.h"
#include "tests/training/checkpoint/sample_shards.h"
#include "training/checkpoint/checkpoint.h"

namespace packtrain::test {
namespace {

World* the_world = nullptr;

// Rank 0's folder, known to all.
std::string shared_path(const std::string& mine) {
  std::string path = mine;
  path.resize(512);
  the_world->control().broadcast(path.data(), path.size(), 0, nullptr);
  return path.c_str();
}

TEST(CheckpointAcrossProcesses, IsReadBackByEveryRankAsItsOwnAndAsAnotherLayout) {
  const TemporaryFolder mine;
  const std::string root = shared_path(mine.path());
  Communicator& control = the_world->control();
  const auto saved = sample_shards(control.rank(), control.size(), true);
  for (const int step : {1, 2, 3}) {
    EXPECT_EQ(save_checkpoint(root, sample_state(step), saved, {2}, control),
              root + "/step-" + std::to_string(step));
  }
  control.barrier();  // rank 0 removes old ones while the others continue
  EXPECT_FALSE(std::filesystem::exists(root + "/step-1"));
  for (const int num_ranks : {control.size(), 1, 5}) {
    const auto shards = sample_shards(control.rank() % num_ranks, num_ranks, false);
    load_checkpoint(root + "/step-3", shards, true);
    EXPECT_EQ(num_wrong_elements(shards), 0);
  }
  control.barrier();  // rank 0 removes its folder
}

TEST(CheckpointAcrossProcesses, IsRefusedByAllWhenTheLastRankFails) {
  const TemporaryFolder mine;
  const std::string root = shared_path(mine.path());
  Communicator& control = the_world->control();
  auto shards = sample_shards(control.rank(), control.size(), true);
  if (control.rank() == control.size() - 1) shards[0].weight = at::Tensor();
  const Error error =
      error_of([&] { save_checkpoint(root, sample_state(1), shards, {2}, control); });
  const std::string wanted = "rank " + std::to_string(control.size() - 1) + ": weight of";
  EXPECT_NE(error.message().find(wanted), std::string::npos) << error.message();
  control.barrier();
  EXPECT_FALSE(find_latest_checkpoint(root).has_value());
  EXPECT_FALSE(std::filesystem::exists(root + "/step-1.tmp"));
  control.barrier();
}

}  // namespace
}  // namespace packtrain::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const auto world = packtrain::join_world();
  packtrain::test::the_world = world.get();
  std::int64_t failed = RUN_ALL_TESTS();
  world->control().all_reduce(&failed, 1, packtrain::DataType::kInt64, packtrain::ReduceOp::kMax,
                              nullptr);
  return static_cast<int>(failed);
}
