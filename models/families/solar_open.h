// Solar Open (model_type "solar_open"; Upstage, 2025): the experts of DeepSeek-V3 in every layer,
// and Llama's attention with heads of 128 elements by default. No layer has an MLP alone, so that
// intermediate_size does not count.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family solar_open_family();

}  // namespace packtrain
