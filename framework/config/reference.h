// What the keys of the configuration mean, for people and for scripts, from the table of keys.
#pragma once

#include <string>

namespace packtrain {

// docs/configuration.md: every key with its values, default and meaning, section by section.
std::string config_reference();

// The same of one key ("section.key" or "key") or of all keys of a section, as plain text. Throws
// Error(kConfig) for a name that is neither, with the nearest one.
std::string explain_config(const std::string& name);

// A line a key: "section.key", and after a tab the values it takes, with spaces between, where
// they have names.
std::string list_config_keys();

}  // namespace packtrain
