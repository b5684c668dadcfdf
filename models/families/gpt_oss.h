// gpt-oss (OpenAI, arXiv 2508.10925): windows in every second layer, attention sinks, YaRN, and
// experts with biases and a clamped swish in every layer. Weights of float32 or bfloat16; published
// ones, in MXFP4, are refused.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family gpt_oss_family();

}  // namespace packtrain
