// Gemma 4 (the text models of E2B, E4B, 31B and 26B-A4B). It differs from Gemma 3 in this:
// - Norms scale by w, not 1 + w, and values have a norm without a weight. Scores are not scaled.
// - Layers without a window have heads of another width, and may have another number of keys
//   (per_layer_config, or global_head_dim and num_global_key_value_heads). With attention_k_eq_v
//   their values are the projected keys.
// - Their rotary positions turn the first part of the pairs (rope_type proportional).
// - The last num_kv_shared_layers layers attend to the keys and values of the last layer of their
//   kind before them. With use_double_wide_mlp their MLPs have twice the width.
// - Each layer adds inputs of its own (hidden_size_per_layer_input, decoder/layer_inputs.h).
// - A constant multiplies the output of each layer.
// - Layers may have experts next to their MLPs (enable_moe_block, gemma4_experts.h).
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family gemma4_text_family();

}  // namespace packtrain
