// Whether the weights of a Hugging Face folder are quantized: its tensors say, not its config.json.
#pragma once

#include <string>

namespace packtrain {

// For a `quantization_config` (or `compression_config`) in the text of a config.json, which tools
// leave behind beside weights that they have turned back into numbers. Throws Error(kConfig) when
// a tensor of the folder is not float32, float16 or bfloat16, or the files cannot be read; warns
// where there are no weights to judge by. A family that decodes quantized weights itself (gpt_oss)
// is left alone.
void check_quantization(const std::string& folder, const std::string& config_json);

}  // namespace packtrain
