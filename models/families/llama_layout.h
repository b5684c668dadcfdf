// The layout that Llama and related families share: keys of config.json and names of weights.
// Families pass what differs.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "models/families/config_keys.h"
#include "models/families/config_reader.h"
#include "models/families/family.h"
#include "models/families/rotary_config.h"

namespace packtrain {

// Default values and key names that differ between families.
struct LlamaLayout {
  std::int64_t head_dim = 0;  // 0: hidden_size / num_attention_heads
  bool has_head_dim = true;   // false: the caller sets config.head_dim and rotary_dim before
  std::int64_t max_positions = 2048;
  double epsilon = 1e-6;
  bool has_epsilon = true;  // read from epsilon_key; false: always `epsilon`
  const char* epsilon_key = "rms_norm_eps";
  bool tied = false;
  const char* activation_key = "hidden_act";
  const char* activation = "silu";
  bool gated = true;
  bool has_dense_layers = true;  // false: intermediate_size is not read
  RotaryDefaults rotary = {};
  bool layered_rotary = false;  // the caller calls read_layered_rotary
};

// Reads and checks sizes, norms, rotary positions, the activation and embeddings. The caller reads
// the family's own keys and calls finish().
void read_llama_layout(ConfigReader& reader, DecoderConfig& config, const LlamaLayout& layout = {});

// Last part of read_llama_layout, for families that read the sizes from other keys. Checks that the
// sizes are consistent.
void check_layout(ConfigReader& reader, const DecoderConfig& config);

// Includes biases and norms that the config has. With norm_after, the norms after branches are
// post_attention_layernorm and post_feedforward_layernorm, and that before the MLP is
// pre_feedforward_layernorm. `add` maps the tensors of what some layers have instead: experts
// instead of an MLP, another mixer instead of attention, an MLP with other names. A mixer may be
// parallel to attention.
using AddPart = std::function<void(WeightMap& map, std::int64_t layer)>;
struct AddLayerParts {
  AddPart experts = {};
  AddPart mixer = {};
  AddPart mlp = {};  // null: gate_proj, up_proj, down_proj
  // The projection to the gate of attention's output; null: q_proj has its rows.
  const char* attention_gate = nullptr;
  // Layer norms of heads are one weight [heads, head_dim] of q_norm, not a module for each head.
  bool stacked_head_norms = false;
};
std::vector<WeightPiece> llama_layout_weights(const DecoderConfig& config,
                                              const AddLayerParts& add);
std::vector<WeightPiece> llama_layout_weights(const DecoderConfig& config,
                                              const AddPart& add_experts);
std::vector<WeightPiece> llama_layout_weights(const DecoderConfig& config);

// The same map for files with other names of modules: `names` has the new name by the old one.
std::vector<WeightPiece> with_module_names(std::vector<WeightPiece> pieces,
                                           const std::map<std::string, std::string>& names);

// Keys that families with other layouts also write.
nlohmann::json write_common_layout(const DecoderConfig& config);
// Inverse of read_llama_layout.
nlohmann::json write_llama_layout(const DecoderConfig& config);

}  // namespace packtrain
