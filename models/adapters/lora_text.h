// The options of an adapter as JSON text, as checkpoints hold them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "models/adapters/lora_options.h"

namespace packtrain {

std::string lora_options_text(const LoraOptions& options);
// Throws Error(kCheckpoint), which names `where` and the key.
LoraOptions parse_lora_options(const std::string& text, const std::string& where);

// The same for the adapters of a run. Several are a JSON array.
std::string lora_list_text(std::span<const LoraOptions> list);
std::vector<LoraOptions> parse_lora_list(const std::string& text, const std::string& where);
bool has_several_adapters(const std::string& text);
// True when the text, of either form, has an adapter with magnitudes.
bool has_magnitudes(const std::string& text);

}  // namespace packtrain
