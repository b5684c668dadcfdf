// Qwen2 and Qwen2.5 (model_type "qwen2"; Yang et al., arXiv 2407.10671): Llama's layout with biases
// on the query, key and value projections. If use_sliding_window is set, the layers of layer_types
// or those from max_window_layers on have a window. The key num_key_value_heads must be set,
// because transformers' fallback is 32 for any number of heads.
#pragma once

#include "models/families/family.h"

namespace packtrain {

class ConfigReader;

Family qwen2_family();

// use_sliding_window, sliding_window, max_window_layers and layer_types. Qwen3 has them too.
void read_qwen_windows(ConfigReader& reader, DecoderConfig& config);
void write_qwen_windows(const DecoderConfig& config, nlohmann::json& json);

}  // namespace packtrain
