// Stores of groups in memory, and drawn ones, for tests of plans and batches.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "framework/core/random.h"
#include "tests/samplers/memory_store.h"

namespace packtrain::test {

struct DrawnMember {
  MemoryExample example;
  GroupRole role = GroupRole::kChosen;
  std::vector<std::vector<float>> columns = {};  // [columns][tokens]
};

struct MemoryGroup {
  std::vector<DrawnMember> members;
  float margin = 0;
};

class GroupStore final : public TokenStore, private ExampleGroups {
 public:
  GroupStore(GroupKind kind, std::vector<MemoryGroup> groups, LossWeights weights = {},
             std::vector<std::string> columns = {}, std::vector<double> token_weights = {},
             bool has_margins = true)
      : groups_(std::move(groups)),
        examples_(examples_of(groups_), std::move(weights), std::move(token_weights)),
        info_(examples_.info()) {
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      first_.push_back(std::ssize(group_of_));
      group_of_.insert(group_of_.end(), groups_[g].members.size(), static_cast<std::int64_t>(g));
    }
    info_.num_examples = std::ssize(group_of_);
    info_.groups = GroupInfo{kind, std::ssize(groups_), has_margins};
    info_.token_columns = std::move(columns);
  }

  const StoreInfo& info() const override { return info_; }
  const std::string& folder() const override { return examples_.folder(); }
  ExampleCounts lengths() const override { return examples_.lengths(); }
  ExampleCounts num_loss_tokens() const override { return examples_.num_loss_tokens(); }
  std::span<const std::int32_t> input_ids(std::int64_t example) const override {
    return examples_.input_ids(example);
  }
  std::span<const std::uint8_t> loss_mask(std::int64_t example) const override {
    return examples_.loss_mask(example);
  }
  std::int16_t source(std::int64_t example) const override { return examples_.source(example); }
  std::string fingerprint() const override { return "groups"; }
  const LossWeights& loss_weights() const override { return examples_.loss_weights(); }
  TokenWeights token_weights(std::int64_t example) const override {
    return examples_.token_weights(example);
  }
  bool has_token_weights() const override { return examples_.has_token_weights(); }
  const ExampleGroups* groups() const override { return this; }
  std::span<const float> token_column(std::int64_t example, std::size_t column) const override {
    return member(example).columns.at(column);
  }
  // Number of masks that were read: comparing the tokens of a group reads those of its examples.
  std::int64_t num_masks_asked() const { return examples_.num_masks_asked(); }

 private:
  static std::vector<MemoryExample> examples_of(const std::vector<MemoryGroup>& groups) {
    std::vector<MemoryExample> examples;
    for (const MemoryGroup& group : groups) {
      for (const DrawnMember& member : group.members) examples.push_back(member.example);
    }
    return examples;
  }

  const DrawnMember& member(std::int64_t example) const {
    const std::int64_t number = group_of(example);
    return groups_[static_cast<std::size_t>(number)]
        .members[static_cast<std::size_t>(example - first_[static_cast<std::size_t>(number)])];
  }
  ExampleGroup group(std::int64_t number) const override {
    const auto g = static_cast<std::size_t>(number);
    return {first_.at(g), std::ssize(groups_[g].members), groups_[g].margin};
  }
  std::int64_t group_of(std::int64_t example) const override {
    return group_of_.at(static_cast<std::size_t>(example));
  }
  GroupRole role(std::int64_t example) const override { return member(example).role; }

  std::vector<MemoryGroup> groups_;
  MemoryStore examples_;
  StoreInfo info_;
  std::vector<std::int64_t> first_;     // [groups] the first example
  std::vector<std::int64_t> group_of_;  // [examples]
};

// A member of `prompt` tokens that are not learned, the same for all, and `answer` tokens of its
// own. Ids of answers begin at `first_id`.
inline DrawnMember member(std::int32_t prompt, std::int32_t answer, std::int32_t first_id,
                          GroupRole role) {
  DrawnMember result{.example = {}, .role = role};
  for (std::int32_t t = 0; t < prompt; ++t) result.example.input_ids.push_back(t);
  for (std::int32_t t = 0; t < answer; ++t) result.example.input_ids.push_back(first_id + t);
  result.example.loss_mask.assign(static_cast<std::size_t>(prompt), 0);
  result.example.loss_mask.resize(result.example.input_ids.size(), 1);
  return result;
}

inline MemoryGroup pair(std::int32_t prompt, std::int32_t chosen, std::int32_t rejected) {
  return {{member(prompt, chosen, 100, GroupRole::kChosen),
           member(prompt, rejected, 500, GroupRole::kRejected)}};
}

// `count` groups of the kind; prompts and answers of 1 to `longest` / 2 tokens. Groups of rollouts
// have up to `most_examples`.
inline std::vector<MemoryGroup> draw_groups(std::uint64_t seed, std::int64_t count,
                                            std::int32_t longest, GroupKind kind,
                                            std::uint64_t most_examples = 1) {
  const CounterRandom random(seed, "test groups");
  const auto half = static_cast<std::uint64_t>(longest / 2);
  std::uint64_t draw = 0;
  const auto length = [&] { return 1 + static_cast<std::int32_t>(random.below(draw++, half)); };
  std::vector<MemoryGroup> groups;
  for (std::int64_t g = 0; g < count; ++g) {
    const std::int32_t prompt = length();
    if (kind == GroupKind::kPairs) {
      const std::int32_t chosen = length();
      groups.push_back(pair(prompt, chosen, length()));
      continue;
    }
    MemoryGroup& group = groups.emplace_back();
    const std::uint64_t size = 1 + random.below(draw++, most_examples);
    for (std::uint64_t e = 0; e < size; ++e) {
      GroupRole role =
          random.below(draw++, 2) == 0 ? GroupRole::kDesirable : GroupRole::kUndesirable;
      if (kind == GroupKind::kRollouts) role = GroupRole::kRollout;
      group.members.push_back(
          member(prompt, length(), 1000 * static_cast<std::int32_t>(e + 1), role));
    }
  }
  return groups;
}

}  // namespace packtrain::test
