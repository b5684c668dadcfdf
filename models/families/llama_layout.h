// The layout that Llama's relatives share: names of keys in config.json and of weights. A family
// says what of it differs.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "models/families/config_keys.h"
#include "models/families/config_reader.h"
#include "models/families/family.h"
#include "models/families/rotary_config.h"

namespace packtrain {

// What a relative has where its config says nothing, and under which keys.
struct LlamaLayout {
  std::int64_t head_dim = 0;  // 0: hidden_size / num_attention_heads
  std::int64_t max_positions = 2048;
  double epsilon = 1e-6;
  bool has_epsilon = true;  // under this key; else `epsilon` always
  const char* epsilon_key = "rms_norm_eps";
  bool tied = false;
  const char* activation_key = "hidden_act";
  const char* activation = "silu";
  bool gated = true;
  RotaryDefaults rotary = {};
  bool layered_rotary = false;  // the caller reads it: read_layered_rotary
};

// Reads and checks sizes, norms, rotary positions, the activation and embeddings. The family's own
// keys, and finish(), are the caller's.
void read_llama_layout(ConfigReader& reader, DecoderConfig& config, const LlamaLayout& layout = {});

// The end of it, for families that read the sizes under other keys: checks that sizes fit each
// other.
void check_layout(ConfigReader& reader, const DecoderConfig& config);

// Biases and norms where the config has them: with norm_after those behind a branch are
// post_attention_layernorm and post_feedforward_layernorm, and that before the MLP
// pre_feedforward_layernorm. `add_experts` maps what a layer with experts has in the place of its
// MLP.
using AddExperts = std::function<void(WeightMap& map, std::int64_t layer)>;
std::vector<WeightPiece> llama_layout_weights(const DecoderConfig& config,
                                              const AddExperts& add_experts);
std::vector<WeightPiece> llama_layout_weights(const DecoderConfig& config);

// Keys that families with another layout write too.
nlohmann::json write_common_layout(const DecoderConfig& config);
// What read_llama_layout reads.
nlohmann::json write_llama_layout(const DecoderConfig& config);

}  // namespace packtrain
