// Ranks that count the rows of groups together.
#include "training/setup/shared_group_rows.h"

#include <gtest/gtest.h>

#include <atomic>

#include "framework/core/error.h"
#include "samplers/group_units.h"
#include "tests/parallel/communicators/thread_ranks.h"
#include "tests/samplers/group_options.h"

namespace packtrain::shared_group_rows_test {
namespace {

using test::draw_groups;
using test::GroupStore;

constexpr int kNumGroups = 1001;  // ranks have different numbers of them
constexpr int kNumRanks = 4;

GroupStore pairs() {
  return GroupStore(GroupKind::kPairs, draw_groups(2, kNumGroups, 30, GroupKind::kPairs));
}

TEST(SharedGroupRows, AreThoseThatEachRankWouldCount) {
  const GroupStore whole = pairs();
  const GroupUnits want(whole, true);
  test::run_ranks(kNumRanks, [&](Communicator& control) {
    const GroupStore store = pairs();
    share_group_rows(store, control);
    const GroupUnits units(store, true);
    for (std::size_t g = 0; g < want.size(); ++g) {
      ASSERT_EQ(units.lengths()[g], want.lengths()[g]) << g;
    }
  });
}

TEST(SharedGroupRows, ReadEachGroupOnOneRank) {
  const GroupStore whole = pairs();
  GroupUnits(whole, true).find_prefixes();
  std::atomic<std::int64_t> num_asked = 0;
  test::run_ranks(kNumRanks, [&](Communicator& control) {
    const GroupStore store = pairs();
    share_group_rows(store, control);
    GroupUnits(store, true).find_prefixes();
    num_asked += store.num_masks_asked();
  });
  EXPECT_EQ(num_asked, whole.num_masks_asked());
}

TEST(SharedGroupRows, LeaveGroupsWithoutSharedPrefixesAsTheyAre) {
  test::run_ranks(kNumRanks, [&](Communicator& control) {
    const GroupStore store = pairs();
    share_group_rows(store, control);
    const GroupUnits units(store, false);
    for (std::size_t g = 0; g < units.size(); ++g) {
      const ExampleGroup group = units.group(static_cast<std::int64_t>(g));
      ASSERT_EQ(units.lengths()[g], units.num_stored_tokens(group)) << g;
    }
  });
}

// Pairs have a bound of memory, so their prefixes are compared as steps are planned.
TEST(SharedGroupRows, OfTrainingAreCountedAtTheStartOnlyWhereARunAsksForAll) {
  Config config;
  config.objective.kind = ObjectiveKind::kDpo;
  const auto num_kept = [&](const Config& of_run) {
    std::atomic<std::size_t> kept = 0;
    test::run_ranks(kNumRanks, [&](Communicator& control) {
      const GroupStore store = pairs();
      share_training_group_rows(store, of_run, control);
      kept = store.groups()->kept_rows().size();
    });
    return kept.load();
  };
  EXPECT_EQ(num_kept(config), 0U);
  config.batch.global_batch_tokens = 4096;
  EXPECT_EQ(num_kept(config), kNumGroups);
  config.batch.share_prefixes = false;
  EXPECT_EQ(num_kept(config), 0U);
}

}  // namespace
}  // namespace packtrain::shared_group_rows_test
