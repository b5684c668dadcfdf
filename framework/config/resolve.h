// Applies settings of any source and returns a checked Config.
#pragma once

#include <span>
#include <string>

#include "framework/config/checks.h"
#include "framework/config/config.h"
#include "framework/config/setting.h"

namespace packtrain {

// Applies `settings` in order over the defaults and checks them as load_config (load.h) does.
// `model.config.KEY` changes one key of the model.config map that was set before. KEY can be
// nested: rope_scaling.factor. `places`: receives where each key was set.
Config resolve_settings(std::span<const Setting> settings, SettingPlaces* places = nullptr);

// Checks the setting alone, without its conflicts with other settings. Returns its value as
// dump_config writes it. Throws Error(kConfig).
std::string write_setting(const Setting& setting);

// The value of a key in `config` as dump_config writes it. Below model.config: a text without
// quotes, other values as JSON, "null" for a missing key. Throws Error(kInternal) for an unknown
// key.
std::string resolved_value(const Config& config, const std::string& key);

}  // namespace packtrain
