// ERNIE 4.5 without experts (model_type "ernie4_5"; Baidu, 2025): Llama with rotary positions that
// turn neighbours, and one key for all biases. The fallback of num_key_value_heads in transformers
// is 2 for any number of heads, so that the key must be set.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "models/families/config_reader.h"
#include "models/families/family.h"

namespace packtrain {

Family ernie4_5_family();

// Shared by models with and without experts. Heads have hidden_size / num_attention_heads elements
// where the config and `head_dim` do not say other.
void read_ernie_layout(ConfigReader& reader, DecoderConfig& config, std::int64_t head_dim);
nlohmann::json write_ernie_layout(const DecoderConfig& config);

}  // namespace packtrain
