// A small store of pairs that tests write and read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "framework/data/store_writer.h"
#include "tests/framework/data/small_stores.h"

namespace packtrain::test {

// A member that learns all but its first two tokens.
struct SmallMember {
  Ids ids;
  GroupRole role = GroupRole::kChosen;
  std::vector<float> advantage = {};

  Mask mask() const {
    Mask mask(ids.size(), 1);
    mask[0] = mask[1] = 0;
    return mask;
  }
};

inline void add_members(StoreWriter& writer, const std::vector<SmallMember>& members,
                        std::optional<float> margin = std::nullopt, std::int16_t source = 0) {
  std::vector<Mask> masks;
  for (const SmallMember& member : members) masks.push_back(member.mask());
  std::vector<GroupMember> written;
  for (std::size_t m = 0; m < members.size(); ++m) {
    written.push_back({{members[m].ids, masks[m], source}, members[m].role});
    if (!members[m].advantage.empty()) {
      written[m].example.token_columns.emplace_back(members[m].advantage);
    }
  }
  writer.add_group(written, margin);
}

inline StoreInfo info_of_groups(GroupKind kind, bool has_margins = false) {
  StoreInfo info = two_sources();
  info.groups = GroupInfo{kind, 0, has_margins};
  return info;
}

inline constexpr GroupRole kRejected = GroupRole::kRejected;

// Three pairs with margins.
inline StoreInfo write_pairs(const std::string& folder, std::int64_t max_shard_tokens = 1000) {
  const auto writer =
      StoreWriter::create(folder, info_of_groups(GroupKind::kPairs, true), false, max_shard_tokens);
  add_members(*writer, {{{1, 2, 3}}, {{1, 2, 4, 5}, kRejected}}, 0.5F);
  add_members(*writer, {{{1, 2, 3, 6}}, {{1, 2, 3, 7}, kRejected}}, -1.0F, 1);
  add_members(*writer, {{{8, 2, 3}}, {{8, 9, 3}, kRejected}}, 0.0F);
  return writer->finish();
}

// Rollouts of three prompts: three, one and two answers, with advantages.
inline StoreInfo write_rollouts(const std::string& folder, std::int64_t max_shard_tokens = 1000) {
  constexpr GroupRole kRollout = GroupRole::kRollout;
  StoreInfo info = info_of_groups(GroupKind::kRollouts);
  info.token_columns = {"advantage"};
  const auto writer = StoreWriter::create(folder, info, false, max_shard_tokens);
  add_members(*writer, {{{1, 2, 3}, kRollout, {0, 0, 1}},
                        {{1, 2, 4, 5}, kRollout, {0, 0, -1, -1}},
                        {{1, 2, 4}, kRollout, {0, 0, 0}}});
  add_members(*writer, {{{6, 2, 3}, kRollout, {0, 0, 2}}});
  add_members(*writer, {{{7, 2, 3}, kRollout, {0, 0, 3}}, {{7, 2, 3}, kRollout, {0, 0, 3}}});
  return writer->finish();
}

// Two conversations, of three turns and of one.
inline StoreInfo write_turns(const std::string& folder, std::int64_t max_shard_tokens = 1000) {
  constexpr GroupRole kTurn = GroupRole::kTurn;
  const auto writer =
      StoreWriter::create(folder, info_of_groups(GroupKind::kTurns), false, max_shard_tokens);
  add_members(*writer, {{{1, 2, 3}, kTurn}, {{1, 2, 4, 5}, kTurn}, {{1, 6, 7}, kTurn}});
  add_members(*writer, {{{8, 9, 3}, kTurn}});
  return writer->finish();
}

}  // namespace packtrain::test
