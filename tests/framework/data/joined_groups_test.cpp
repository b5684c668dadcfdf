// Several stores of groups as one: every group of every repeat, whole.
#include "framework/data/joined_groups.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "framework/core/error.h"
#include "framework/data/joined_store.h"
#include "framework/data/store_groups.h"
#include "tests/framework/data/small_groups.h"
#include "tests/framework/data/small_stores.h"
#include "tests/helpers/temporary_folder.h"

namespace packtrain::joined_groups_test {
namespace {

using test::add_members;
using test::Ids;
using test::SmallMember;
using test::TemporaryFolder;

class JoinedGroupsTest : public ::testing::Test {
 protected:
  // Group g has g + 1 rollouts. The last token of rollout k is 10 g + k + `first`.
  std::unique_ptr<TokenStore> rollouts(const std::string& name, std::int32_t first,
                                       std::int32_t num_groups) {
    StoreInfo info = test::info_of_groups(GroupKind::kRollouts);
    info.vocab_size = 1000;
    info.token_columns = {"advantage"};
    const auto writer = StoreWriter::create(folder_ / name, info, false);
    for (std::int32_t g = 0; g < num_groups; ++g) {
      std::vector<SmallMember> members;
      for (std::int32_t k = 0; k <= g; ++k) {
        const std::int32_t last = 10 * g + k + first;
        members.push_back({{1, 2, last}, GroupRole::kRollout, {0, 0, static_cast<float>(last)}});
      }
      add_members(*writer, members);
    }
    writer->finish();
    return TokenStore::open(folder_ / name);
  }

  static std::unique_ptr<TokenStore> join(std::unique_ptr<TokenStore> a, double repeats,
                                          std::unique_ptr<TokenStore> b) {
    std::vector<StorePart> parts;
    parts.push_back({std::move(a), repeats});
    parts.push_back({std::move(b), 1});
    return join_stores(std::move(parts));
  }

  const TemporaryFolder folder_;
};

// The last tokens of a group's examples.
Ids last_tokens(const TokenStore& store, std::int64_t number) {
  const ExampleGroup group = store.groups()->group(number);
  Ids ids;
  for (std::int64_t k = 0; k < group.num_examples; ++k) {
    const std::int64_t example = group.first_example + k;
    EXPECT_EQ(store.groups()->group_of(example), number);
    EXPECT_EQ(store.groups()->role(example), GroupRole::kRollout);
    EXPECT_EQ(store.token_column(example, 0)[2], static_cast<float>(store.input_ids(example)[2]));
    ids.push_back(store.input_ids(example)[2]);
  }
  return ids;
}

TEST_F(JoinedGroupsTest, HaveTheGroupsOfEachRepeatAndThenOfTheNextStore) {
  const auto store = join(rollouts("a", 100, 2), 2, rollouts("b", 200, 1));
  ASSERT_TRUE(store->info().groups);
  EXPECT_EQ(store->info().groups->num_groups, 5);
  EXPECT_EQ(store->info().num_examples, 7);
  const std::vector<Ids> expected = {{100}, {110, 111}, {100}, {110, 111}, {200}};
  for (std::int64_t g = 0; g < 5; ++g) EXPECT_EQ(last_tokens(*store, g), expected[g]) << g;
  EXPECT_THROW(store->groups()->group(5), Error);
}

TEST_F(JoinedGroupsTest, APartOfARepeatHasWholeGroupsEachOnce) {
  const auto store = join(rollouts("a", 100, 7), 1.5, rollouts("b", 300, 2));
  const std::int64_t num_groups = store->info().groups->num_groups;
  EXPECT_EQ(num_groups, 7 + 4 + 2);
  std::vector<Ids> whole;
  for (std::int64_t g = 0; g < 7; ++g) whole.push_back(last_tokens(*store, g));
  std::vector<Ids> rest;
  std::int64_t num_examples = 0;
  for (std::int64_t g = 7; g < 11; ++g) rest.push_back(last_tokens(*store, g));
  for (std::int64_t g = 0; g < num_groups; ++g) {
    EXPECT_EQ(store->groups()->group(g).first_example, num_examples) << g;
    num_examples += store->groups()->group(g).num_examples;
  }
  EXPECT_EQ(num_examples, store->info().num_examples);
  for (std::size_t g = 0; g < rest.size(); ++g) {
    EXPECT_NE(std::ranges::find(whole, rest[g]), whole.end());
    EXPECT_EQ(std::ranges::count(rest, rest[g]), 1);
  }
  EXPECT_EQ(last_tokens(*store, 11), (Ids{300}));
}

TEST_F(JoinedGroupsTest, KeepMarginsWhereEveryStoreHasThem) {
  test::write_pairs(folder_ / "a");
  test::write_pairs(folder_ / "b");
  const auto writer =
      StoreWriter::create(folder_ / "none", test::info_of_groups(GroupKind::kPairs), false);
  add_members(*writer, {{{1, 2, 3}}, {{1, 2, 4}, test::kRejected}});
  writer->finish();
  const auto open = [&](const char* name) { return TokenStore::open(folder_ / name); };
  const auto both = join(open("a"), 1, open("b"));
  EXPECT_TRUE(both->info().groups->has_margins);
  EXPECT_EQ(both->groups()->group(4).margin, -1.0F);
  EXPECT_FALSE(join(open("a"), 1, open("none"))->info().groups->has_margins);
}

TEST_F(JoinedGroupsTest, RefuseStoresOfSeveralKindsAndColumnsByName) {
  test::write_pairs(folder_ / "pairs");
  const auto message = [&](std::unique_ptr<TokenStore> other) {
    const auto join_both = [&] { join(TokenStore::open(folder_ / "pairs"), 1, std::move(other)); };
    return test::error_of(join_both).message();
  };
  EXPECT_EQ(message(rollouts("a", 1, 1)),
            "data.train: " + (folder_ / "pairs") + " has groups of the kind 'pairs', " +
                (folder_ / "a") + " has groups of the kind 'rollouts'");
  test::write_store(folder_ / "plain");
  EXPECT_NE(message(TokenStore::open(folder_ / "plain")).find("has plain examples"),
            std::string::npos);
  StoreInfo info = test::info_of_groups(GroupKind::kPairs);
  info.token_columns = {"advantage"};
  const auto writer = StoreWriter::create(folder_ / "columns", info, false);
  add_members(*writer, {{{1, 2, 3}, GroupRole::kChosen, {0, 0, 1}},
                        {{1, 2, 4}, GroupRole::kRejected, {0, 0, 1}}});
  writer->finish();
  EXPECT_NE(message(TokenStore::open(folder_ / "columns"))
                .find("has the columns of tokens [], " + (folder_ / "columns") +
                      " has the columns of tokens [advantage]"),
            std::string::npos);
}

TEST_F(JoinedGroupsTest, RefuseRepeatsOfNoGroup) {
  const auto join_both = [&] { join(rollouts("a", 1, 2), 0.1, rollouts("b", 1, 2)); };
  EXPECT_EQ(test::error_of(join_both).message(),
            "data.train: 0.1 repeats of the 2 groups of " + (folder_ / "a") + " are no group");
}

}  // namespace
}  // namespace packtrain::joined_groups_test
