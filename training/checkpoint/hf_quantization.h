// Detects quantized weights in a Hugging Face folder by its tensors, not by its config.json.
#pragma once

#include <string>

namespace packtrain {

// Call when config.json has a `quantization_config` or `compression_config`. Tools leave these keys
// there after they have dequantized the weights. Throws Error(kConfig), with the quant_method, when
// a tensor is neither a plain number, NF4 of bitsandbytes nor 8-bit floats in blocks
// (hf_block_fp8.h). Throws it too when the files cannot be read. Warns when the folder has no
// weights. Does nothing for a family that decodes quantized weights itself (gpt_oss).
void check_quantization(const std::string& folder, const std::string& config_json);

}  // namespace packtrain
