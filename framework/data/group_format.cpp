#include "framework/data/group_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "framework/core/requirements.h"

namespace packtrain {
namespace {

using Json = ManifestReader::Json;

constexpr std::array<const char*, 2> kKinds{"pairs", "judged"};
constexpr std::array<const char*, 4> kRoles{"chosen", "rejected", "desirable", "undesirable"};
constexpr std::size_t kMaxNameLength = 64;

GroupKind kind_named(const ManifestReader& reader, const std::string& name) {
  const auto found = std::ranges::find(kKinds, name);
  if (found == kKinds.end()) {
    reader.fail(fmt::format("'kind' of '{}' is '{}', wanted 'pairs' or 'judged'", kGroupsKey,
                            name.substr(0, 80)),
                kUseANewerVersion);
  }
  return static_cast<GroupKind>(found - kKinds.begin());
}

std::string fault_of_roles(const ShardColumns& columns, GroupKind kind, std::int64_t begin) {
  const auto roles = columns.group_role.subspan(static_cast<std::size_t>(begin));
  if (kind == GroupKind::kPairs) {
    const bool is_pair = roles[0] == static_cast<std::uint8_t>(GroupRole::kChosen) &&
                         roles[1] == static_cast<std::uint8_t>(GroupRole::kRejected);
    return is_pair ? ""
                   : fmt::format("roles {} and {}, wanted 0 (chosen) and 1 (rejected)", roles[0],
                                 roles[1]);
  }
  const bool is_judged = roles[0] == static_cast<std::uint8_t>(GroupRole::kDesirable) ||
                         roles[0] == static_cast<std::uint8_t>(GroupRole::kUndesirable);
  return is_judged ? "" : fmt::format("role {}, wanted 2 (desirable) or 3 (undesirable)", roles[0]);
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

bool has_role(GroupKind kind, GroupRole role) {
  const bool is_of_pairs = role == GroupRole::kChosen || role == GroupRole::kRejected;
  return is_of_pairs == (kind == GroupKind::kPairs);
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
  const std::int64_t wanted = info.kind == GroupKind::kPairs ? 2 : 1;
  if (begin < 0 || end > std::ssize(columns.group_role) || end - begin != wanted) {
    return fmt::format("group {} of the shard has the examples from {} to {}, wanted {}", group,
                       begin, end, wanted);
  }
  const std::string fault = fault_of_roles(columns, info.kind, begin);
  if (!fault.empty()) return fmt::format("example {}: has {}", first_example + begin, fault);
  if (info.has_margins && !std::isfinite(columns.margin[static_cast<std::size_t>(group)])) {
    return fmt::format("example {}: the margin of its group is {}, wanted a finite number",
                       first_example + begin, columns.margin[static_cast<std::size_t>(group)]);
  }
  return {};
}

}  // namespace packtrain
