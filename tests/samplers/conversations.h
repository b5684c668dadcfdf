// Drawn groups of turns, for tests of plans and batches.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "framework/core/random.h"
#include "tests/samplers/group_store.h"

namespace packtrain::test {

// A turn that follows the first `common` tokens of the conversation and then `own` others. Ids of
// these and of the answer begin at `first_id`.
inline DrawnMember turn(std::int32_t common, std::int32_t own, std::int32_t answer,
                        std::int32_t first_id) {
  DrawnMember drawn = member(common, own + answer, first_id, GroupRole::kTurn);
  std::fill_n(drawn.example.loss_mask.begin() + common, own, std::uint8_t{0});
  return drawn;
}

// `count` conversations of up to `most_turns` turns of at most `longest` tokens. Prompts grow from
// turn to turn. Some earlier turns follow tokens that later prompts lack, such as thoughts.
inline std::vector<MemoryGroup> draw_conversations(std::uint64_t seed, std::int64_t count,
                                                   std::int32_t longest, std::uint64_t most_turns) {
  const CounterRandom random(seed, "test conversations");
  std::uint64_t draw = 0;
  const auto below = [&](std::int64_t bound) {
    return static_cast<std::int32_t>(random.below(draw++, static_cast<std::uint64_t>(bound)));
  };
  const std::int32_t fifth = longest / 5;
  std::vector<MemoryGroup> groups(static_cast<std::size_t>(count));
  for (MemoryGroup& group : groups) {
    const auto num_turns = static_cast<std::int32_t>(1 + random.below(draw++, most_turns));
    std::int32_t common = 1 + below(fifth);
    for (std::int32_t k = 0; k < num_turns; ++k) {
      const std::int32_t own = below(3) == 0 ? below(fifth) : 0;
      group.members.push_back(turn(common, own, 1 + below(fifth), 1000 * (k + 1)));
      common += 1 + below(2 * fifth / num_turns);
    }
  }
  return groups;
}

}  // namespace packtrain::test
