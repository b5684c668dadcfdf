// Reading a configuration: YAML file + `section.key=value` overrides -> checked Config.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "framework/config/config.h"

namespace packtrain {

// Reads `path` and applies `overrides` ("section.key=value", value in YAML syntax), in order.
// Throws Error(kConfig) naming file, line and key for: an unreadable file, a syntax error, an
// unknown section or key (with the nearest known one, or our name for a key users bring from other
// trainers), a value of the wrong type or out of range, and settings that contradict each other.
// Relative paths stay as written: relative to the working directory.
Config load_config(const std::string& path, std::span<const std::string> overrides = {});

// The resolved configuration as YAML, every key written out; loading it gives an equal Config.
std::string dump_config(const Config& config);

// XXH3-128 (hex) of dump_config: the same for equal settings.
std::string hash_config(const Config& config);

// What a configuration must say to train, or to evaluate, beyond being right: a store, and for
// training exactly one of model.path and model.config. Throw Error(kConfig) naming the key.
void check_for_training(const Config& config);
void check_for_evaluation(const Config& config);

// The value of "section.key" as dump_config writes it. Throws Error(kInternal) for no such key.
std::string config_value(const Config& config, const std::string& key);

// Every key as "section.key", in the order in which dump_config writes them.
std::vector<std::string> config_keys();

}  // namespace packtrain
