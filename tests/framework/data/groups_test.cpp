// Stores of groups, and columns of tokens: written, read, and refused where they are damaged.
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "framework/core/error.h"
#include "framework/data/joined_store.h"
#include "framework/data/store_groups.h"
#include "framework/data/store_writer.h"
#include "framework/data/token_store.h"
#include "tests/framework/data/small_groups.h"
#include "tests/framework/data/small_stores.h"
#include "tests/helpers/temporary_folder.h"

namespace packtrain::groups_test {
namespace {

using test::add_members;
using test::copy;
using test::error_of;
using test::Ids;
using test::info_of_groups;
using test::kRejected;
using test::Mask;
using test::SmallMember;
using test::TemporaryFolder;
using test::two_sources;
using test::write_pairs;
using test::write_rollouts;
using Values = std::vector<float>;

void expect_the_pairs(const TokenStore& store) {
  ASSERT_TRUE(store.info().groups);
  EXPECT_EQ(store.info().groups->num_groups, 3);
  EXPECT_TRUE(store.info().groups->has_margins);
  constexpr std::array kMargins{0.5F, -1.0F, 0.0F};
  constexpr std::array<std::int64_t, 3> kShared{2, 2, 1};
  for (std::int64_t g = 0; g < 3; ++g) {
    const ExampleGroup group = store.groups()->group(g);
    EXPECT_EQ(group.first_example, 2 * g);
    EXPECT_EQ(group.num_examples, 2);
    EXPECT_EQ(group.margin, kMargins[g]);
    EXPECT_EQ(num_shared_tokens(store, group), kShared[g]) << g;
    for (std::int64_t e = 2 * g; e < 2 * g + 2; ++e) {
      EXPECT_EQ(store.groups()->group_of(e), g);
      EXPECT_EQ(store.groups()->role(e), e % 2 == 0 ? GroupRole::kChosen : kRejected);
    }
  }
  EXPECT_EQ(copy(store.input_ids(3)), (Ids{1, 2, 3, 7}));
  EXPECT_EQ(store.source(3), 1);
}

TEST(Groups, WhatIsWrittenIsRead) {
  const TemporaryFolder folder;
  EXPECT_EQ(write_pairs(folder / "store").groups->num_groups, 3);
  const auto store = TokenStore::open(folder / "store");
  store->check_all(0, 1);
  expect_the_pairs(*store);
}

TEST(Groups, NoShardDividesAGroup) {
  const TemporaryFolder folder;
  write_pairs(folder / "one");
  write_pairs(folder / "many", 1);
  const auto many = TokenStore::open(folder / "many");
  many->check_all(0, 1);
  expect_the_pairs(*many);
  EXPECT_TRUE(std::filesystem::exists(folder / "many/part-00002.safetensors"));
  EXPECT_FALSE(std::filesystem::exists(folder / "many/part-00003.safetensors"));
  EXPECT_EQ(many->fingerprint(), TokenStore::open(folder / "one")->fingerprint());
}

TEST(Groups, JudgedAnswersAreGroupsOfOneThatShareNothing) {
  const TemporaryFolder folder;
  const auto writer =
      StoreWriter::create(folder / "store", info_of_groups(GroupKind::kJudged), false);
  add_members(*writer, {{{1, 2, 3}, GroupRole::kUndesirable}});
  add_members(*writer, {{{1, 2, 4}, GroupRole::kDesirable}});
  writer->finish();
  const auto store = TokenStore::open(folder / "store");
  store->check_all(0, 1);
  EXPECT_EQ(store->groups()->role(0), GroupRole::kUndesirable);
  EXPECT_EQ(store->groups()->role(1), GroupRole::kDesirable);
  EXPECT_EQ(store->groups()->group(1).num_examples, 1);
  EXPECT_FALSE(store->groups()->group(1).margin);
  EXPECT_EQ(num_shared_tokens(*store, store->groups()->group(1)), 0);
}

void expect_the_rollouts(const TokenStore& store) {
  ASSERT_TRUE(store.info().groups);
  EXPECT_EQ(store.info().groups->kind, GroupKind::kRollouts);
  constexpr std::array<std::int64_t, 4> kBegins{0, 3, 4, 6};
  constexpr std::array<std::int64_t, 3> kShared{2, 0, 2};
  for (std::int64_t g = 0; g < 3; ++g) {
    const ExampleGroup group = store.groups()->group(g);
    EXPECT_EQ(group.first_example, kBegins[g]);
    EXPECT_EQ(group.num_examples, kBegins[g + 1] - kBegins[g]);
    EXPECT_EQ(num_shared_tokens(store, group), kShared[g]) << g;
    for (std::int64_t e = kBegins[g]; e < kBegins[g + 1]; ++e) {
      EXPECT_EQ(store.groups()->group_of(e), g);
      EXPECT_EQ(store.groups()->role(e), GroupRole::kRollout);
    }
  }
  EXPECT_EQ(copy(store.token_column(1, 0)), (Values{0, 0, -1, -1}));
}

TEST(Groups, RolloutsOfAPromptAreAGroupOfAnySize) {
  const TemporaryFolder folder;
  EXPECT_EQ(write_rollouts(folder / "one").groups->num_groups, 3);
  write_rollouts(folder / "many", 1);
  const auto one = TokenStore::open(folder / "one");
  const auto many = TokenStore::open(folder / "many");
  for (const TokenStore* store : {one.get(), many.get()}) {
    store->check_all(0, 1);
    expect_the_rollouts(*store);
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "many/part-00003.safetensors"));
  EXPECT_EQ(many->fingerprint(), one->fingerprint());
}

TEST(Groups, FingerprintOfRolloutsHasTheSizesOfGroups) {
  const TemporaryFolder folder;
  const SmallMember answer{{1, 2, 3}, GroupRole::kRollout};
  for (const bool first_is_alone : {false, true}) {
    const auto writer = StoreWriter::create(folder / (first_is_alone ? "alone" : "last"),
                                            info_of_groups(GroupKind::kRollouts), false);
    const std::vector<SmallMember> two{answer, answer};
    add_members(*writer, first_is_alone ? std::vector{answer} : two);
    add_members(*writer, first_is_alone ? two : std::vector{answer});
    writer->finish();
  }
  EXPECT_NE(TokenStore::open(folder / "alone")->fingerprint(),
            TokenStore::open(folder / "last")->fingerprint());
}

TEST(Groups, WriterRefusesRolesOfAnotherKind) {
  const TemporaryFolder folder;
  const auto writer =
      StoreWriter::create(folder / "store", info_of_groups(GroupKind::kRollouts), false);
  const SmallMember rollout{{1, 2, 3}, GroupRole::kRollout};
  const SmallMember chosen{{1, 2, 4}};
  EXPECT_EQ(error_of([&] { add_members(*writer, {rollout, chosen}); }).message(),
            folder / "store: example 0: its group of 2 is not one of the kind 'rollouts'");
  EXPECT_EQ(error_of([&] { add_members(*writer, {}); }).message(),
            folder / "store: example 0: its group of 0 is not one of the kind 'rollouts'");
}

TEST(Groups, FingerprintDiffersFromThatOfThePlainStoreAndIsUnchangedWithoutGroups) {
  const TemporaryFolder folder;
  write_pairs(folder / "pairs");
  const auto writer = StoreWriter::create(folder / "plain", two_sources(), false);
  const auto pairs = TokenStore::open(folder / "pairs");
  for (std::int64_t e = 0; e < 6; ++e) {
    writer->add(pairs->input_ids(e), pairs->loss_mask(e), pairs->source(e));
  }
  writer->finish();
  const auto plain = TokenStore::open(folder / "plain");
  EXPECT_NE(pairs->fingerprint(), plain->fingerprint());
  EXPECT_NE(pairs->content_digest(), plain->content_digest());
}

TEST(Groups, AMarginIsPartOfTheContentDigest) {
  const TemporaryFolder folder;
  write_pairs(folder / "a");
  const auto writer =
      StoreWriter::create(folder / "b", info_of_groups(GroupKind::kPairs, true), false);
  add_members(*writer, {{{1, 2, 3}}, {{1, 2, 4, 5}, kRejected}}, 0.25F);
  add_members(*writer, {{{1, 2, 3, 6}}, {{1, 2, 3, 7}, kRejected}}, -1.0F, 1);
  add_members(*writer, {{{8, 2, 3}}, {{8, 9, 3}, kRejected}}, 0.0F);
  writer->finish();
  EXPECT_NE(TokenStore::open(folder / "a")->content_digest(),
            TokenStore::open(folder / "b")->content_digest());
}

TEST(Groups, WriterRefusesWhatIsNoGroupOfItsKind) {
  const TemporaryFolder folder;
  const auto writer =
      StoreWriter::create(folder / "store", info_of_groups(GroupKind::kPairs, true), false);
  const auto message = [&](const std::vector<SmallMember>& members, std::optional<float> margin) {
    return error_of([&] { add_members(*writer, members, margin); }).message();
  };
  const SmallMember chosen{{1, 2, 3}};
  const SmallMember rejected{{1, 2, 4}, kRejected};
  const std::string place = folder / "store: example 0: ";
  EXPECT_EQ(message({chosen}, 1), place + "its group of 1 is not one of the kind 'pairs'");
  EXPECT_EQ(message({rejected, chosen}, 1),
            place + "its group of 2 is not one of the kind 'pairs'");
  EXPECT_EQ(message({chosen, chosen}, 1), place + "its group of 2 is not one of the kind 'pairs'");
  EXPECT_EQ(message({chosen, rejected}, {}),
            place + "its group has no margin, and the store has margins");
  EXPECT_EQ(message({chosen, rejected}, std::numeric_limits<float>::infinity()),
            place + "the margin of its group is not finite");
  EXPECT_EQ(error_of([&] { writer->add(Ids{1}, Mask{1}, 0); }).message(),
            place + "is of no group, and the store has groups");
}

TEST(Groups, APlainStoreHasNoGroups) {
  const TemporaryFolder folder;
  test::write_store(folder / "store");
  const auto store = TokenStore::open(folder / "store");
  EXPECT_FALSE(store->info().groups);
  EXPECT_EQ(store->groups(), nullptr);
  EXPECT_EQ(error_of([&] { store->token_column(0, 0); }).category(), ErrorCategory::kInternal);
}

TEST(Groups, AskingForOneThatIsNotThereIsAnError) {
  const TemporaryFolder folder;
  write_pairs(folder / "store");
  const auto store = TokenStore::open(folder / "store");
  for (const std::function<void()>& ask : std::vector<std::function<void()>>{
           [&] { store->groups()->group(3); }, [&] { store->groups()->group_of(6); },
           [&] { store->groups()->role(-1); }}) {
    EXPECT_EQ(error_of(ask).category(), ErrorCategory::kInternal);
  }
}

TEST(Groups, StoresOfGroupsAreNotTrainedAsPlainExamples) {
  const TemporaryFolder folder;
  write_pairs(folder / "pairs");
  test::write_store(folder / "plain");
  const auto pairs = TokenStore::open(folder / "pairs");
  const Error error = error_of([&] { check_is_plain(*pairs, "data.train"); });
  EXPECT_EQ(error.category(), ErrorCategory::kData);
  EXPECT_EQ(error.message(), "data.train: " + (folder / "pairs") +
                                 " holds groups of the kind 'pairs' (chosen and rejected answers), "
                                 "wanted a store of plain examples");
  EXPECT_NE(error.advice().find("--only-chosen"), std::string::npos);
  check_is_plain(*TokenStore::open(folder / "plain"), "data.train");
  write_rollouts(folder / "rollouts");
  const auto rollouts = TokenStore::open(folder / "rollouts");
  EXPECT_NE(error_of([&] { check_is_plain(*rollouts, "data.train"); })
                .message()
                .find("the kind 'rollouts' (answers of a policy)"),
            std::string::npos);
  std::vector<StorePart> parts;
  parts.push_back({TokenStore::open(folder / "plain")});
  parts.push_back({TokenStore::open(folder / "pairs")});
  EXPECT_EQ(error_of([&] { join_stores(std::move(parts)); }).category(), ErrorCategory::kData);
}

TEST(TokenColumns, WhatIsWrittenIsRead) {
  const TemporaryFolder folder;
  StoreInfo info = two_sources();
  info.token_columns = {"advantage", "old_log_prob"};
  const auto writer = StoreWriter::create(folder / "store", info, false, 1);
  const Values advantage{0, 1.5F, -2};
  const Values log_prob{0, -0.25F, -4};
  writer->add({Ids{1, 2, 3}, Mask{0, 1, 1}, 0, {advantage, log_prob}});
  writer->add({Ids{4}, Mask{1}, 0, {Values{7}, Values{8}}});
  writer->finish();
  const auto store = TokenStore::open(folder / "store");
  store->check_all(0, 1);
  EXPECT_EQ(store->info().token_columns, info.token_columns);
  EXPECT_EQ(copy(store->token_column(0, 0)), advantage);
  EXPECT_EQ(copy(store->token_column(0, 1)), log_prob);
  EXPECT_EQ(copy(store->token_column(1, 1)), Values{8});
  EXPECT_EQ(error_of([&] { check_is_plain(*store, "data.train"); }).category(),
            ErrorCategory::kData);
}

TEST(TokenColumns, WriterRefusesValuesThatAreMissingOrNotFinite) {
  const TemporaryFolder folder;
  StoreInfo info = two_sources();
  info.token_columns = {"advantage"};
  const auto writer = StoreWriter::create(folder / "store", info, false);
  const auto message = [&](const std::vector<std::span<const float>>& columns) {
    return error_of([&] { writer->add({Ids{1, 2}, Mask{0, 1}, 0, columns}); }).message();
  };
  const std::string place = folder / "store: example 0: ";
  const Values one{1};
  const Values infinite{0, std::numeric_limits<float>::quiet_NaN()};
  EXPECT_EQ(message({}), place + "has 0 columns of tokens, wanted 1");
  EXPECT_EQ(message({one}), place + "has 2 tokens, but 1 values of 'advantage'");
  EXPECT_EQ(message({infinite}), place + "'advantage' holds a value that is not finite");
}

}  // namespace
}  // namespace packtrain::groups_test
