// The options of an adapter as JSON text, as checkpoints hold them.
#pragma once

#include <string>

#include "models/adapters/lora_options.h"

namespace packtrain {

std::string lora_options_text(const LoraOptions& options);
// Throws Error(kCheckpoint), which names `where` and the key.
LoraOptions parse_lora_options(const std::string& text, const std::string& where);

}  // namespace packtrain
