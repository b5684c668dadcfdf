// Stores that an objective reads, and the words for others.
#include "training/setup/store_kind.h"

#include <gtest/gtest.h>

#include <string>

#include "framework/core/error.h"
#include "tests/helpers/temporary_folder.h"
#include "tests/samplers/group_store.h"
#include "training/setup/training_store.h"

namespace packtrain::store_kind_test {
namespace {

using Kind = ObjectiveKind;

ObjectiveSection section(Kind kind) {
  ObjectiveSection found;
  found.kind = kind;
  return found;
}

test::GroupStore store_of(GroupKind kind) {
  test::MemoryGroup group = test::pair(2, 1, 1);
  if (kind != GroupKind::kRollouts) return {kind, {group}};
  for (test::DrawnMember& member : group.members) member.columns = {{0, 0, 1}};
  return {kind, {group}, {}, {"advantage"}};
}

std::string message(const TokenStore& store, Kind objective) {
  return test::error_of([&] { check_store_kind(store, section(objective), "data.train"); })
      .message();
}

TEST(StoreKind, EachObjectiveReadsItsOwn) {
  for (const Kind kind : {Kind::kDpo, Kind::kIpo, Kind::kOrpo, Kind::kSimpo, Kind::kCpo}) {
    EXPECT_NO_THROW(check_store_kind(store_of(GroupKind::kPairs), section(kind), "data.train"));
  }
  EXPECT_NO_THROW(
      check_store_kind(store_of(GroupKind::kJudged), section(Kind::kKto), "data.train"));
  EXPECT_NO_THROW(
      check_store_kind(store_of(GroupKind::kRollouts), section(Kind::kPolicy), "data.train"));
  const test::MemoryStore plain({{{1, 2}, {0, 1}}});
  EXPECT_NO_THROW(check_store_kind(plain, section(Kind::kNextToken), "data.train"));
  EXPECT_NO_THROW(
      check_store_kind(store_of(GroupKind::kTurns), section(Kind::kNextToken), "data.train"));
}

TEST(StoreKind, AnotherOneIsRefusedWithBothNames) {
  EXPECT_EQ(message(store_of(GroupKind::kJudged), Kind::kDpo),
            "data.train: memory holds groups of the kind 'judged', but objective.kind: dpo reads "
            "groups of the kind 'pairs'");
  EXPECT_EQ(message(test::MemoryStore({{{1, 2}, {0, 1}}}), Kind::kKto),
            "data.train: memory holds plain examples, but objective.kind: kto reads groups of the "
            "kind 'judged'");
  EXPECT_EQ(message(store_of(GroupKind::kPairs), Kind::kNextToken),
            "data.train: memory holds groups of the kind 'pairs' (chosen and rejected answers), "
            "wanted a store of plain examples");
}

TEST(StoreKind, WhatTheLossReadsIsInTheStoreOrItIsNamed) {
  EXPECT_EQ(message(test::GroupStore(GroupKind::kRollouts, {test::pair(2, 1, 1)}), Kind::kPolicy),
            "data.train: the rollouts of memory have no token column 'advantage'");
  ObjectiveSection with_margins = section(Kind::kDpo);
  with_margins.margin_scale = 0.5;
  const test::GroupStore pairs = store_of(GroupKind::kPairs);
  EXPECT_NO_THROW(check_store_kind(pairs, with_margins, "data.train"));
  const test::GroupStore bare(GroupKind::kPairs, {test::pair(2, 1, 1)}, {}, {}, {}, false);
  EXPECT_NO_THROW(check_store_kind(bare, section(Kind::kDpo), "data.train"));
  const Error error =
      test::error_of([&] { check_store_kind(bare, with_margins, "data.validation"); });
  EXPECT_EQ(error.message(),
            "data.validation: the pairs of memory have no margins, but objective.margin_scale is "
            "0.5");
}

TEST(StoreKind, ExamplesMustFitLearnedPositions) {
  const test::MemoryStore store({{{1, 2, 3, 4}, {0, 1, 1, 1}}, {{1, 2}, {0, 1}}});
  DecoderConfig decoder;
  decoder.max_positions = 3;
  EXPECT_NO_THROW(check_learned_positions(store, 100, decoder));  // rotary positions have no end
  decoder.learned_positions = true;
  const Error error = test::error_of([&] { check_learned_positions(store, 100, decoder); });
  EXPECT_EQ(error.message(),
            "token store memory has examples of up to 4 tokens, the model has 3 learned positions");
  EXPECT_EQ(error.exit_code(), 65);
  EXPECT_NO_THROW(check_learned_positions(store, 3, decoder));  // cut at data.max_length
  decoder.max_positions = 4;
  EXPECT_NO_THROW(check_learned_positions(store, 100, decoder));
}

TEST(StoreKind, AStateOfAGatedDeltaRuleFollowsNoSharedRows) {
  DecoderConfig decoder;
  decoder.delta_net.num_key_heads = 2;
  decoder.layers = {{}, {}};
  EXPECT_NO_THROW(require_shareable_rows(decoder, true, "the model"));
  decoder.layers.back().delta_net = true;
  EXPECT_NO_THROW(require_shareable_rows(decoder, false, "the model"));
  const Error error = test::error_of([&] { require_shareable_rows(decoder, true, "the model"); });
  EXPECT_NE(error.message().find("layers of the model have another mixer than attention"),
            std::string::npos)
      << error.message();
  EXPECT_EQ(error.advice(), "Set batch.share_prefixes: false.");
  EXPECT_EQ(error.exit_code(), 64);
}

TEST(StoreKind, TheAdviceNamesTheObjectivesThatReadTheStore) {
  const auto advice = [](const TokenStore& store, Kind objective) {
    return test::error_of([&] { check_store_kind(store, section(objective), "data.train"); })
        .advice();
  };
  EXPECT_EQ(advice(store_of(GroupKind::kPairs), Kind::kKto),
            "Name a store of the kind 'judged' (docs/preferences.md), or set objective.kind to "
            "dpo, ipo, orpo, simpo or cpo.");
  EXPECT_EQ(advice(store_of(GroupKind::kTurns), Kind::kPolicy),
            "Name a store of the kind 'rollouts' (docs/preferences.md), or set objective.kind to "
            "next_token.");
  EXPECT_NE(advice(store_of(GroupKind::kPairs), Kind::kNextToken).find("objective.kind"),
            std::string::npos);
}

}  // namespace
}  // namespace packtrain::store_kind_test
