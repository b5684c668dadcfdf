#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <vector>

#include "framework/core/error.h"
#include "parallel/communicators/host_name.h"
#include "tests/parallel/communicators/world_fixture.h"

namespace packtrain {
namespace {

TEST(World, KnowsItsRanksAndItsHost) {
  World& world = test_world();
  const char* launched = std::getenv("OMPI_COMM_WORLD_SIZE");
  if (launched == nullptr) launched = std::getenv("WORLD_SIZE");  // torchrun sets it
  EXPECT_EQ(std::to_string(world.size()), launched == nullptr ? "1" : launched);
  EXPECT_EQ(world.rank(), world.control().rank());
  EXPECT_EQ(world.size(), world.control().size());
  std::array<char, 256> name{};
  ASSERT_EQ(gethostname(name.data(), name.size()), 0);
  const char* chosen = std::getenv("NCCL_HOSTID");
  EXPECT_EQ(world.host(), chosen == nullptr ? name.data() : chosen);
}

TEST(World, NumbersTheRanksOfAHost) {
  World& world = test_world();  // the tests run on one machine
  std::vector<char> hosts(static_cast<std::size_t>(world.size()));
  const char mine = world.host().back();
  world.control().all_gather(&mine, hosts.data(), 1, DataType::kUInt8, nullptr);
  EXPECT_EQ(world.local_size(), std::ranges::count(hosts, mine));
  EXPECT_EQ(world.local_rank(), std::count(hosts.begin(), hosts.begin() + world.rank(), mine));
  if (std::getenv("NCCL_HOSTID") != nullptr) {
    EXPECT_LT(world.local_size(), world.size());
  }
}

TEST(HostNames, OfOneMachineAreEqual) {
  EXPECT_EQ(unique_host_names({{"a", "1"}, {"a", "1"}, {"b", "2"}}),
            (std::vector<std::string>{"a", "a", "b"}));
}

TEST(HostNames, DistinguishSeveralMachinesOfOneName) {
  EXPECT_EQ(
      unique_host_names(
          {{"clone", "1"}, {"clone", "2"}, {"clone", "1"}, {"b", ""}, {"clone", "2"}}),
      (std::vector<std::string>{"clone", "clone (of rank 1)", "clone", "b", "clone (of rank 1)"}));
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
