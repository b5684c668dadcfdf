// Compares the section `adapter` with the adapter of adapter.path, which decides.
#pragma once

#include "framework/config/config.h"
#include "models/adapters/lora_options.h"
#include "models/layers/decoder_config.h"

namespace packtrain {

// Compares the keys of the section that were set, or are no defaults, with the options of the
// folder. Throws Error(kConfig) with both values of the first that differs. Patterns are compared
// by the modules that they match in `base`.
void check_options_of_folder(const Config& config, const LoraOptions& of_folder,
                             const DecoderConfig& base);

}  // namespace packtrain
