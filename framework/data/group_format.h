// Groups and columns of tokens in store.json and in the columns of a shard.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/data/example_groups.h"
#include "framework/data/manifest_reader.h"
#include "framework/data/store_shard.h"

namespace packtrain {

inline constexpr std::size_t kMaxTokenColumns = 16;

const char* name_of(GroupKind kind);  // "pairs", "judged", "rollouts", "turns"
const char* name_of(GroupRole role);  // "chosen", ...
std::optional<GroupRole> role_named(std::string_view name);
// The kind of groups that have examples of this role.
GroupKind kind_of(GroupRole role);
bool has_role(GroupKind kind, GroupRole role);  // kind_of(role) == kind
// Why these are not the roles of one group of this kind, in their order. Empty when they are.
std::string fault_of_roles(GroupKind kind, std::span<const GroupRole> roles);

// The name of a tensor of a shard file. The prefix keeps it apart from the other tensors.
std::string tensor_of_column(const std::string& name);
// Whether a column can have this name: a lower-case letter, then letters, digits or underscores, at
// most 64.
bool is_column_name(std::string_view name);

// Checks that `requires` names the member `key` if and only if store.json has it: older programs
// would not see it. Throws Error(kData).
void check_requirement(const ManifestReader& reader, const ManifestReader::Json& json,
                       const char* key, const std::vector<std::string>& requirements);

// The member `groups` or `token_columns` of store.json. Throws Error(kData).
std::optional<GroupInfo> read_groups(const ManifestReader& reader, const ManifestReader::Json& json,
                                     const std::vector<std::string>& requirements);
std::vector<std::string> read_token_columns(const ManifestReader& reader,
                                            const ManifestReader::Json& json,
                                            const std::vector<std::string>& requirements);
ManifestReader::Json groups_json(const GroupInfo& groups);

// Why group `group` of a shard is not one of this kind. Empty when it is. `first_example`: of the
// shard, for the text.
std::string fault_of_group(const ShardColumns& columns, const GroupInfo& info, std::int64_t group,
                           std::int64_t first_example);

}  // namespace packtrain
