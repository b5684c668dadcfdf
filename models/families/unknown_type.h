// The error for a config.json of a type that is not in the table of families.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace packtrain {

// Throws Error(kConfig). It lists the known types, and names the family that reads most of the
// config's keys, with the keys that this family refuses.
[[noreturn]] void refuse_unknown_type(const nlohmann::json& config);

}  // namespace packtrain
