// Stores of conversations whose turns are examples, and plain stores next to them.
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "framework/core/error.h"
#include "framework/data/joined_store.h"
#include "framework/data/store_groups.h"
#include "framework/data/turn_store.h"
#include "tests/framework/data/small_groups.h"
#include "tests/helpers/temporary_folder.h"

namespace packtrain::turns_test {
namespace {

using test::copy;
using test::error_of;
using test::Ids;
using test::TemporaryFolder;
using test::write_turns;
using Counts = std::vector<std::int64_t>;

TEST(Turns, OfAConversationAreAGroupWithTokensThatTheLastOneHasToo) {
  const TemporaryFolder folder;
  EXPECT_EQ(write_turns(folder / "one").groups->num_groups, 2);
  write_turns(folder / "many", 1);
  for (const char* name : {"one", "many"}) {
    const auto store = TokenStore::open(folder / name);
    store->check_all(0, 1);
    EXPECT_EQ(store->info().groups->kind, GroupKind::kTurns);
    EXPECT_EQ(store->groups()->group(0).num_examples, 3);
    EXPECT_EQ(store->groups()->role(2), GroupRole::kTurn);
    EXPECT_EQ(shared_with_last(*store, store->groups()->group(0)), (Counts{1, 1, 1}));
    EXPECT_EQ(shared_with_last(*store, store->groups()->group(1)), (Counts{0}));
  }
}

TEST(Turns, AreAcceptedByNextTokenTraining) {
  const TemporaryFolder folder;
  write_turns(folder / "turns");
  EXPECT_NO_THROW(check_is_plain(*TokenStore::open(folder / "turns"), "data.train"));
}

TEST(Turns, APlainExampleNextToThemIsAGroupOfOne) {
  const TemporaryFolder folder;
  write_turns(folder / "turns");
  test::write_store(folder / "plain");
  auto turns = TokenStore::open(folder / "turns");
  auto plain = TokenStore::open(folder / "plain");
  const Ids ids = copy(plain->input_ids(1));
  const std::string fingerprint = plain->fingerprint();
  const std::int64_t num_plain = plain->info().num_examples;
  match_turns({&turns, &plain});
  EXPECT_EQ(plain->fingerprint(), fingerprint);
  EXPECT_EQ(plain->info().groups->num_groups, num_plain);
  EXPECT_EQ(error_of([&] { plain->groups()->group(num_plain); }).category(),
            ErrorCategory::kInternal);
  std::vector<StorePart> parts;
  parts.push_back({std::move(turns)});
  parts.push_back({std::move(plain), 2.0});
  const auto joined = join_stores(std::move(parts));
  EXPECT_EQ(joined->info().groups->num_groups, 2 + 2 * num_plain);
  EXPECT_EQ(joined->groups()->group_of(4 + num_plain), 2 + num_plain);
  EXPECT_EQ(joined->groups()->group(3).num_examples, 1);
  EXPECT_EQ(joined->groups()->role(5), GroupRole::kTurn);
  EXPECT_EQ(copy(joined->input_ids(5)), ids);
}

TEST(Turns, PlainStoresAloneStayAsTheyAre) {
  const TemporaryFolder folder;
  test::write_store(folder / "plain");
  auto plain = TokenStore::open(folder / "plain");
  const TokenStore* const before = plain.get();
  match_turns({&plain});
  EXPECT_EQ(plain.get(), before);
}

TEST(Turns, StoresOfAnotherKindAreNotJoinedWithThem) {
  const TemporaryFolder folder;
  write_turns(folder / "turns");
  test::write_pairs(folder / "pairs");
  auto turns = TokenStore::open(folder / "turns");
  auto pairs = TokenStore::open(folder / "pairs");
  match_turns({&turns, &pairs});
  std::vector<StorePart> parts;
  parts.push_back({std::move(turns)});
  parts.push_back({std::move(pairs)});
  EXPECT_NE(error_of([&] { join_stores(std::move(parts)); }).message().find("the kind 'turns'"),
            std::string::npos);
}

}  // namespace
}  // namespace packtrain::turns_test
