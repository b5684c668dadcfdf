// Finds the modules of a model that an adapter's options name.
#pragma once

#include "models/adapters/lora_options.h"
#include "models/layers/adapter_targets.h"
#include "models/layers/decoder_config.h"

namespace packtrain {

// Targets are linear layers of attention and MLP, and by name embedding and head where they are not
// one matrix. LoraModule::num_rows of an embedding is the width of its output.
// Throws Error(kConfig) with the pattern or module. A pattern must match, a rank must not be larger
// than a matrix, and a target must be a linear layer.
AdapterTargets find_lora_targets(const DecoderConfig& config, const LoraOptions& options);

}  // namespace packtrain
