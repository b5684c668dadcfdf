// What the names in adapter_config.json mean in a model.
#pragma once

#include <string>

#include "framework/core/safetensors.h"
#include "models/adapters/lora_options.h"
#include "models/layers/decoder_config.h"
#include "training/checkpoint/peft_config.h"

namespace packtrain {

// The options that find the folder's adapter in `base`. `file` has its tensors, and `path` is
// adapter_config.json. Targets and names to save are empty when no name is of a module.
// Throws Error(kConfig) when a name of target_parameters is not of stacked experts.
LoraOptions peft_options(const PeftConfig& config, const SafetensorsFile& file,
                         const DecoderConfig& base, const std::string& path);

}  // namespace packtrain
