// Groups of a store: examples that belong together, such as the answers to one prompt. A group's
// examples are consecutive and in one shard.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace packtrain {

// Keys of store.json, and names of requirements.
inline constexpr const char* kGroupsKey = "groups";
inline constexpr const char* kTokenColumnsKey = "token_columns";

enum class GroupKind : std::uint8_t {
  kPairs,     // a chosen and a rejected example, in this order
  kJudged,    // one example, desirable or undesirable
  kRollouts,  // one or more answers that a policy wrote for one prompt
  kTurns,     // one or more turns of a conversation, each after its own prompt
};

// Values of the column group_role.
enum class GroupRole : std::uint8_t {
  kChosen,
  kRejected,
  kDesirable,
  kUndesirable,
  kRollout,
  kTurn
};

// True for examples that next-token training would learn. The others show what is worse.
inline bool is_learned(GroupRole role) {
  return role != GroupRole::kRejected && role != GroupRole::kUndesirable;
}

// True for groups whose examples are compared or scored. Those of turns are examples of next-token
// training that share rows and nothing else.
inline bool is_of_objective(GroupKind kind) {
  return kind != GroupKind::kTurns;
}

// `groups` of store.json.
struct GroupInfo {
  GroupKind kind = GroupKind::kPairs;
  std::int64_t num_groups = 0;
  bool has_margins = false;  // every group has a margin, or none has
};

struct ExampleGroup {
  std::int64_t first_example = 0;
  std::int64_t num_examples = 0;
  std::optional<float> margin = std::nullopt;  // by how much chosen is better than rejected
};

// The groups of a store. All functions throw Error(kData) for damaged data, and Error(kInternal)
// for a number that the store does not have.
class ExampleGroups {
 public:
  virtual ~ExampleGroups() = default;

  // Group 0..num_groups-1, in the order of examples.
  virtual ExampleGroup group(std::int64_t number) const = 0;
  // Number of the group that has the example.
  virtual std::int64_t group_of(std::int64_t example) const = 0;
  virtual GroupRole role(std::int64_t example) const = 0;

  // [groups] The rows of each group where its examples share their prefix (samplers/group_units.h).
  // Ranks count them together (training/setup/shared_group_rows.h), because that reads every token.
  // Empty: not known. Keep them before several threads use the store.
  std::span<const std::int32_t> kept_rows() const { return kept_rows_; }
  void keep_rows(std::vector<std::int32_t> found) const { kept_rows_ = std::move(found); }

 private:
  mutable std::vector<std::int32_t> kept_rows_;
};

}  // namespace packtrain
