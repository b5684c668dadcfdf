// `adapters`: several adapters that one run trains together.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "framework/config/config.h"
#include "framework/config/field.h"

namespace packtrain {

// A list of maps. Each has a name, and keys of the sections adapter, data, batch, optimizer and
// schedule without the section's name. Throws Error(kConfig) when names are equal or a key is not
// one of an adapter's own.
Field adapter_list(const char* name, std::vector<NamedAdapter>& member);

// True for a run of one adapter or several.
inline bool trains_adapter(const Config& config) {
  return config.adapter.is_used() || !config.adapters.empty();
}

// True for a "section.key" of which each adapter may have a value of its own, such as
// "adapter.rank", "data.train" and every key of schedule.
bool is_adapter_key(std::string_view key);

// The configuration of each adapter's own run: its settings over those of the file. One element,
// `config` itself, when `adapters` is empty.
std::vector<Config> adapter_configs(const Config& config);

// True for a key of the section adapter, as "adapter.rank", that was set, or whose value is not the
// default.
bool sets_adapter_key(const Config& config, const std::string& key);

// True when the configuration or one of several adapters names a store to evaluate on.
bool has_validation(const Config& config);

// "adapters: 'de'", for messages.
std::string adapter_label(const std::string& name);

// Throws Error(kConfig) naming the key when `config` asks for what several adapters cannot have.
void check_adapters(const Config& config);
// Throws Error(kConfig) when there are several. `what`: what serves one adapter alone.
void require_one_adapter(const Config& config, const std::string& what);

}  // namespace packtrain
