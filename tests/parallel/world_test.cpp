#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>
#include <vector>

#include "framework/support/error.h"
#include "tests/parallel/world_fixture.h"

namespace packtrain {
namespace {

TEST(World, KnowsItsRanksAndItsHost) {
  World& world = test_world();
  const char* launched = std::getenv("OMPI_COMM_WORLD_SIZE");
  EXPECT_EQ(world.size(), launched == nullptr ? 1 : std::atoi(launched));
  EXPECT_EQ(world.rank(), world.control().rank());
  EXPECT_EQ(world.size(), world.control().size());
  std::array<char, 256> name{};
  ASSERT_EQ(gethostname(name.data(), name.size()), 0);
  EXPECT_EQ(world.host(), name.data());
}

TEST(World, NumbersTheRanksOfAHost) {
  World& world = test_world();  // the tests run on one host
  EXPECT_EQ(world.local_size(), world.size());
  std::vector<std::int32_t> seen(static_cast<std::size_t>(world.size()));
  const std::int32_t local_rank = world.local_rank();
  world.control().all_gather(&local_rank, seen.data(), 1, DataType::kInt32, nullptr);
  for (std::size_t i = 0; i < seen.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(seen[i], seen[j]);
  }
}

TEST(World, LocalBackendRefusesSeveralRanks) {
  if (test_world().size() == 1) {
    EXPECT_EQ(test_world().connect(Backend::kLocal)->size(), 1);
  } else {
    EXPECT_THROW(test_world().connect(Backend::kLocal), Error);
  }
}

}  // namespace
}  // namespace packtrain
