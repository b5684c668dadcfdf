// Documentation of the configuration keys, generated from the table of keys.
#pragma once

#include <string>

namespace packtrain {

// docs/configuration.md: every key with its values, default and meaning, section by section.
std::string config_reference();

// The same for one key ("section.key" or "key") or for all keys of a section, as plain text. Throws
// Error(kConfig) with the nearest name for an unknown one.
std::string explain_config(const std::string& name);

// One line for each key: "section.key". Keys with named values have a tab and the names, separated
// by spaces.
std::string list_config_keys();

}  // namespace packtrain
