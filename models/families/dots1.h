// dots.llm1 (model_type "dots1"; rednote, arXiv 2506.05767): attention of Qwen 3 with biases by
// attention_bias, and experts of DeepSeek-V3 after some dense layers. Windows are as in Qwen 3.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family dots1_family();

}  // namespace packtrain
