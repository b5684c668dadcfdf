// From settings, wherever they come from, to a checked Config.
#pragma once

#include <span>
#include <string>

#include "framework/config/config.h"
#include "framework/config/setting.h"

namespace packtrain {

// Applies `settings` in order over the defaults and checks them, as load_config (load.h) says. A
// setting `model.config.KEY` (KEY may go deeper: rope_scaling.factor) changes one key of the map
// that model.config was given before it.
Config resolve_settings(std::span<const Setting> settings);

// Checks the setting alone, without what it has to agree with, and returns its value as
// dump_config writes it. Throws Error(kConfig).
std::string write_setting(const Setting& setting);

// Of `config`: what dump_config writes for the key, or for a key below model.config a text as it
// is or other JSON, "null" for one that is not there. Throws Error(kInternal) for no such key.
std::string resolved_value(const Config& config, const std::string& key);

}  // namespace packtrain
