// The axes of the mesh, with as many ranks as the test was started with.
#include "parallel/communicators/process_mesh.h"

#include <gtest/gtest.h>

#include "framework/core/error.h"
#include "tests/parallel/communicators/world_fixture.h"

namespace packtrain {
namespace {

TEST(ProcessMesh, GivesEachRankAPlaceOfItsOwn) {
  const World& world = test_world();
  for (int shard_size = 1; shard_size <= world.size(); ++shard_size) {
    if (world.size() % shard_size != 0) continue;
    const ProcessMesh mesh = make_process_mesh(world, shard_size);
    EXPECT_EQ(mesh.shard.size, shard_size);
    EXPECT_EQ(mesh.replicate.size, world.size() / shard_size);
    EXPECT_LT(mesh.shard.rank, mesh.shard.size);
    EXPECT_LT(mesh.replicate.rank, mesh.replicate.size);
    EXPECT_EQ(mesh.data_parallel_size(), data_parallel_size(world));
    EXPECT_EQ(mesh.data_parallel_rank(), world.rank());
  }
}

TEST(ProcessMesh, HasConsecutiveRanksAlongItsShardAxis) {
  const World& world = test_world();
  const ProcessMesh whole = make_process_mesh(world, world.size());
  EXPECT_EQ(whole.shard.rank, world.rank());
  EXPECT_EQ(whole.replicate.size, 1);
  const ProcessMesh alone = make_process_mesh(world, 1);
  EXPECT_EQ(alone.replicate.rank, world.rank());
  EXPECT_EQ(alone.shard.size, 1);
}

TEST(ProcessMesh, RefusesAShardSizeThatDoesNotDivideTheRanks) {
  EXPECT_THROW(make_process_mesh(test_world(), test_world().size() + 1), Error);
}

TEST(ProcessMesh, HasTheAxisOfACommunicator) {
  const MeshAxis axis = axis_of(&test_world().control());
  EXPECT_EQ(axis.size, test_world().size());
  EXPECT_EQ(axis.rank, test_world().rank());
  EXPECT_EQ(axis_of(nullptr).size, 1);
  EXPECT_EQ(axis_of(nullptr).rank, 0);
}

}  // namespace
}  // namespace packtrain
