// Members of manifest.json, with their types.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <stdexcept>
#include <string>

namespace packtrain {

// The fault of a manifest. It completes a sentence that begins with the file's name.
// parse_manifest() converts it to an Error.
struct ManifestFault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Each throws ManifestFault when `object` has no such member, or one of another type.
const nlohmann::json& member(const nlohmann::json& object, const char* key);
std::string text_member(const nlohmann::json& object, const char* key);
std::uint64_t unsigned_member(const nlohmann::json& object, const char* key);
std::int64_t count_member(const nlohmann::json& object, const char* key);
// Reads the value itself, which `what` names.
std::int64_t count_from(const nlohmann::json& value, const std::string& what);
double number_from(const nlohmann::json& value, const char* key);
// False when there is no such member.
bool flag_member(const nlohmann::json& object, const char* key);

}  // namespace packtrain
