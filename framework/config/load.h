// Loads a configuration: YAML file and `section.key=value` overrides to a checked Config.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "framework/config/config.h"
#include "framework/config/unread_warnings.h"

namespace packtrain {

// Reads `path`, or nothing where it is empty, and applies `overrides` ("section.key=value", value
// in YAML syntax) in order. Relative paths stay relative to the working directory. Throws
// Error(kConfig) with file, line and key for an unreadable file, a syntax error, an invalid value,
// or settings that conflict. It also throws for an unknown section or key. The advice is then the
// nearest key, or our name for a key of other trainers.
Config load_config(const std::string& path, std::span<const std::string> overrides = {});

// Loads likewise. `unread` gets the keys that are set and have no effect under the other settings.
Config load_config(const std::string& path, std::span<const std::string> overrides,
                   std::vector<UnreadKey>& unread);

// The resolved configuration as YAML, every key written out; loading it gives an equal Config.
std::string dump_config(const Config& config);

// XXH3-128 (hex) of dump_config. Equal settings have equal hashes.
std::string hash_config(const Config& config);

// Keys that training or evaluation requires in addition: a store, and for training exactly one of
// model.path and model.config. Throw Error(kConfig) with the key.
void check_for_training(const Config& config);
void check_for_evaluation(const Config& config);

// The value of "section.key" as dump_config writes it. Throws Error(kInternal) for an unknown key.
std::string config_value(const Config& config, const std::string& key);

// Every key as "section.key", in the order in which dump_config writes them.
std::vector<std::string> config_keys();

}  // namespace packtrain
