// The section `adapter` as options of an adapter.
#pragma once

#include "framework/config/adapter_section.h"
#include "models/adapters/lora_options.h"

namespace packtrain {

// Throws Error(kConfig) for a rank of adapter.rank_pattern that is not a whole number.
LoraOptions lora_options(const AdapterSection& section);

// The inverse, without name and initial values, which an adapter that has values does not need.
AdapterSection adapter_section(const LoraOptions& options);

}  // namespace packtrain
