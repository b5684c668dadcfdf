#include "framework/data/group_format.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "framework/core/requirements.h"

namespace packtrain {
namespace {

using Json = ManifestReader::Json;

constexpr std::array<const char*, 4> kKinds{"pairs", "judged", "rollouts", "turns"};
constexpr std::array<const char*, 6> kRoles{"chosen",      "rejected", "desirable",
                                            "undesirable", "rollout",  "turn"};
constexpr std::size_t kMaxNameLength = 64;

GroupKind kind_named(const ManifestReader& reader, const std::string& name) {
  const auto found = std::ranges::find(kKinds, name);
  if (found == kKinds.end()) {
    reader.fail(fmt::format("'kind' of '{}' is '{}', wanted '{}'", kGroupsKey, name.substr(0, 80),
                            fmt::join(kKinds, "' or '")),
                kUseANewerVersion);
  }
  return static_cast<GroupKind>(found - kKinds.begin());
}

// Why the bytes of a shard are not the roles of one group.
std::string fault_of_bytes(std::span<const std::uint8_t> bytes, GroupKind kind) {
  constexpr std::ptrdiff_t kShown = 8;
  const auto wrong = std::ranges::find_if(bytes, [](auto byte) { return byte >= kRoles.size(); });
  if (wrong != bytes.end()) {
    return fmt::format("has the role {}, wanted 0..{}", *wrong, kRoles.size() - 1);
  }
  // GroupRole is stored as uint8.
  const std::span roles(reinterpret_cast<const GroupRole*>(bytes.data()), bytes.size());
  const std::string fault = fault_of_roles(kind, roles);
  if (fault.empty()) return {};
  const auto shown = bytes.first(static_cast<std::size_t>(std::min(std::ssize(bytes), kShown)));
  return fmt::format("its group of {} has the roles {}{}, {}", bytes.size(), fmt::join(shown, ", "),
                     shown.size() < bytes.size() ? ", ..." : "", fault);
}

}  // namespace

void check_requirement(const ManifestReader& reader, const Json& json, const char* key,
                       const std::vector<std::string>& requirements) {
  const bool is_there = json.contains(key);
  const bool is_required = std::ranges::find(requirements, key) != requirements.end();
  if (is_there == is_required) return;
  reader.fail(fmt::format("has {0}'{1}', and 'requires' {2} '{1}'", is_there ? "" : "no ", key,
                          is_required ? "names" : "does not name"));
}

const char* name_of(GroupKind kind) {
  return kKinds[static_cast<std::size_t>(kind)];
}

const char* name_of(GroupRole role) {
  return kRoles[static_cast<std::size_t>(role)];
}

std::optional<GroupRole> role_named(std::string_view name) {
  const auto found = std::ranges::find(kRoles, name);
  if (found == kRoles.end()) return {};
  return static_cast<GroupRole>(found - kRoles.begin());
}

GroupKind kind_of(GroupRole role) {
  switch (role) {
    case GroupRole::kChosen:
    case GroupRole::kRejected:
      return GroupKind::kPairs;
    case GroupRole::kDesirable:
    case GroupRole::kUndesirable:
      return GroupKind::kJudged;
    case GroupRole::kRollout:
      return GroupKind::kRollouts;
    case GroupRole::kTurn:
      break;
  }
  return GroupKind::kTurns;
}

bool has_role(GroupKind kind, GroupRole role) {
  return kind_of(role) == kind;
}

std::string fault_of_roles(GroupKind kind, std::span<const GroupRole> roles) {
  const bool is_pair =
      roles.size() == 2 && roles[0] == GroupRole::kChosen && roles[1] == GroupRole::kRejected;
  const bool are_of_kind = !roles.empty() && std::ranges::all_of(roles, [&](GroupRole role) {
    return has_role(kind, role);
  });
  switch (kind) {
    case GroupKind::kPairs:
      return is_pair ? "" : "wanted 0 (chosen) and 1 (rejected)";
    case GroupKind::kJudged:
      return are_of_kind && roles.size() == 1 ? "" : "wanted one, 2 (desirable) or 3 (undesirable)";
    case GroupKind::kRollouts:
      return are_of_kind ? "" : "wanted at least one, each 4 (rollout)";
    case GroupKind::kTurns:
      break;
  }
  return are_of_kind ? "" : "wanted at least one, each 5 (turn)";
}

std::string tensor_of_column(const std::string& name) {
  return "token." + name;
}

bool is_column_name(std::string_view name) {
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto is_allowed = [&](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '_';
  };
  return !name.empty() && name.size() <= kMaxNameLength && is_letter(name.front()) &&
         std::ranges::all_of(name, is_allowed);
}

std::optional<GroupInfo> read_groups(const ManifestReader& reader, const Json& json,
                                     const std::vector<std::string>& requirements) {
  check_requirement(reader, json, kGroupsKey, requirements);
  if (!json.contains(kGroupsKey)) return {};
  const Json& groups = reader.value(json, kGroupsKey, Json::value_t::object);
  GroupInfo info;
  info.kind = kind_named(reader, reader.text(groups, "kind"));
  info.num_groups = reader.count(groups, "num_groups", 1);
  info.has_margins = reader.value(groups, "has_margins", Json::value_t::boolean).get<bool>();
  return info;
}

std::vector<std::string> read_token_columns(const ManifestReader& reader, const Json& json,
                                            const std::vector<std::string>& requirements) {
  check_requirement(reader, json, kTokenColumnsKey, requirements);
  std::vector<std::string> names;
  if (!json.contains(kTokenColumnsKey)) return names;
  for (const Json& entry : reader.value(json, kTokenColumnsKey, Json::value_t::array)) {
    const std::string name = entry.is_string() ? entry.get<std::string>() : "";
    if (!is_column_name(name) || std::ranges::find(names, name) != names.end()) {
      reader.fail(
          fmt::format("'{}' holds {}, wanted different names of lower-case letters, digits "
                      "and underscores",
                      kTokenColumnsKey, entry.dump().substr(0, 80)));
    }
    names.push_back(name);
  }
  if (names.empty() || names.size() > kMaxTokenColumns) {
    reader.fail(fmt::format("'{}' holds {} names, wanted 1..{}", kTokenColumnsKey, names.size(),
                            kMaxTokenColumns));
  }
  return names;
}

Json groups_json(const GroupInfo& groups) {
  return {{"kind", name_of(groups.kind)},
          {"num_groups", groups.num_groups},
          {"has_margins", groups.has_margins}};
}

std::string fault_of_group(const ShardColumns& columns, const GroupInfo& info, std::int64_t group,
                           std::int64_t first_example) {
  const std::int64_t begin = columns.group_offsets[static_cast<std::size_t>(group)];
  const std::int64_t end = columns.group_offsets[static_cast<std::size_t>(group) + 1];
  if (begin < 0 || end <= begin || end > std::ssize(columns.group_role)) {
    return fmt::format("group {} of the shard has the examples from {} to {}", group, begin, end);
  }
  const auto bytes = columns.group_role.subspan(static_cast<std::size_t>(begin),
                                                static_cast<std::size_t>(end - begin));
  const std::string fault = fault_of_bytes(bytes, info.kind);
  if (!fault.empty()) return fmt::format("example {}: {}", first_example + begin, fault);
  if (info.has_margins && !std::isfinite(columns.margin[static_cast<std::size_t>(group)])) {
    return fmt::format("example {}: the margin of its group is {}, wanted a finite number",
                       first_example + begin, columns.margin[static_cast<std::size_t>(group)]);
  }
  return {};
}

}  // namespace packtrain
