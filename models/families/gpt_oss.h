// gpt-oss (OpenAI, arXiv 2508.10925): windows in every second layer, attention sinks, YaRN, and
// experts with biases and a clamped swish in every layer. Published folders have the experts in
// MXFP4, which import reads. Export writes them in bfloat16 or float32.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family gpt_oss_family();

}  // namespace packtrain
