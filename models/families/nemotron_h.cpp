#include "models/families/nemotron_h.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/families/activation_config.h"
#include "models/families/llama_layout.h"
#include "models/families/mamba2_layout.h"
#include "models/families/nemotron_h_weights.h"
#include "models/families/sigmoid_experts.h"

namespace packtrain {
namespace {

constexpr const char* kBlockTypes = "layers_block_type";

std::string block_type_of(char mark) {
  switch (mark) {
    case 'M':
      return "linear_attention";
    case '*':
      return "full_attention";
    case '-':
      return "mlp";
    case 'E':
      return "moe";
    default:
      return {mark};
  }
}

// The list of types, or the older pattern with a mark for each layer.
std::vector<std::string> read_block_types(ConfigReader& reader) {
  constexpr const char* kPattern = "hybrid_override_pattern";
  std::vector<std::string> types =
      reader.texts(reader.has("layer_types") ? "layer_types" : kBlockTypes);
  const std::string pattern = reader.text(kPattern, "");
  if (!types.empty()) return types;
  for (const char mark : pattern) types.push_back(block_type_of(mark));
  if (types.empty()) reader.fail(kBlockTypes, "is not set, want a list of the layers' types");
  return types;
}

LayerPattern layer_of_block_type(ConfigReader& reader, const std::string& type) {
  if (type == "linear_attention" || type == "mamba") {
    return {.no_rotary = true, .mamba2 = true, .no_mlp = true};
  }
  if (type == "full_attention" || type == "attention") return {.no_rotary = true, .no_mlp = true};
  if (type == "moe") return {.no_rotary = true, .experts = true, .no_mixer = true};
  if (type != "mlp") {
    reader.reject(kBlockTypes, "has \"" + type +
                                   "\", want linear_attention, full_attention, mlp or moe "
                                   "(in a pattern M, *, - or E)");
  }
  return {.no_rotary = true, .no_mixer = true};
}

const char* block_type_of(const LayerPattern& layer) {
  if (layer.mamba2) return "linear_attention";
  if (!layer.no_mixer) return "full_attention";
  return layer.experts ? "moe" : "mlp";
}

void read_layers_of_nemotron_h(ConfigReader& reader, DecoderConfig& config) {
  const std::vector<std::string> types = read_block_types(reader);
  if (std::ssize(types) != config.num_layers) {
    reader.fail("num_hidden_layers", "is " + std::to_string(config.num_layers) + ", want the " +
                                         std::to_string(types.size()) + " layers of " +
                                         kBlockTypes);
  }
  for (const std::string& type : types) config.layers.push_back(layer_of_block_type(reader, type));
}

// The key, or its older name where a config has that.
const char* either_key(ConfigReader& reader, const char* key, const char* older) {
  if (!reader.has(older)) return key;
  reader.ignore({key});
  return older;
}

void read_mamba2_of_nemotron_h(ConfigReader& reader, DecoderConfig& config) {
  Mamba2Config& mamba = config.mamba2;
  mamba.num_heads = reader.integer("mamba_num_heads", 128);
  mamba.head_dim = reader.integer("mamba_head_dim", 64);
  const char* groups = either_key(reader, "n_groups", "mamba_n_groups");
  mamba.num_groups = reader.integer(groups, 8);
  mamba.state_dim = reader.integer("ssm_state_size", 128);
  mamba.conv_width = reader.integer(either_key(reader, "conv_kernel", "mamba_d_conv"), 4);
  mamba.conv_bias = reader.boolean(either_key(reader, "use_conv_bias", "mamba_conv_bias"), true);
  mamba.projection_bias = reader.boolean("use_bias", false);
  mamba.norm_epsilon = config.norm.epsilon;
  mamba.norm_groups = mamba.num_groups;
  const char* step = either_key(reader, "time_step_min", "mamba_dt_min");
  mamba.min_step = reader.number(step, 0.001);
  if (mamba.min_step < 0) reader.fail(step, "must not be negative");
  check_mamba2_groups(reader, mamba, groups);
  reader.require("mamba_hidden_act", "silu");
}

void read_experts_of_nemotron_h(ConfigReader& reader, DecoderConfig& config) {
  read_sigmoid_experts(reader, config,
                       {.num_experts = 8, .intermediate_size = 7688, .experts_per_token = 2});
  reader.require("n_shared_experts", 1);
  reader.require("moe_latent_size", nullptr);
  config.experts.shared_intermediate_size =
      reader.integer("moe_shared_expert_intermediate_size", 7688);
  config.experts.shared_bias = config.mlp_bias;
  if (std::ranges::none_of(config.layers, &LayerPattern::experts)) config.experts = {};
}

// Keys that change nothing in training, and those with one value that is computed.
void read_other_keys_of_nemotron_h(ConfigReader& reader, const DecoderConfig& config) {
  reader.require("tie_word_embeddings", false);  // transformers ties no weights of this family
  reader.require("attention_bias", false);
  reader.require("attention_head_dim", config.head_dim);
  reader.require("norm_eps", config.norm.epsilon);
  reader.require("residual_in_fp32", false);
  reader.require("sliding_window", nullptr);
  constexpr const char* kUnused[] = {"chunk_size",
                                     "expand",
                                     "mamba_chunk_size",
                                     "mamba_dt_init_floor",
                                     "mamba_dt_limit",
                                     "mamba_dt_max",
                                     "mamba_expand",
                                     "mamba_proj_bias",
                                     "mamba_ssm_cache_dtype",
                                     "moe_shared_expert_overlap",
                                     "mtp_hybrid_override_pattern",
                                     "mtp_layers_block_type",
                                     "num_logits_to_keep",
                                     "partial_rotary_factor",
                                     "rescale_prenorm_residual",
                                     "rope_parameters",
                                     "rope_scaling",
                                     "rope_theta",
                                     "time_step_floor",
                                     "time_step_limit",
                                     "time_step_max",
                                     "use_mamba_kernels"};
  for (const char* key : kUnused) reader.ignore({key});
}

// The number of layers is that of their types, where it is not set.
nlohmann::json with_num_layers(const nlohmann::json& json) {
  ConfigReader reader(json);
  nlohmann::json whole = json;
  if (!reader.has("num_hidden_layers"))
    whole["num_hidden_layers"] = read_block_types(reader).size();
  return whole;
}

DecoderConfig parse_nemotron_h(const nlohmann::json& json) {
  ConfigReader reader(with_num_layers(json));
  DecoderConfig config;
  config.family = "nemotron_h";
  reader.integer("num_key_value_heads");
  config.intermediate_size = reader.integer("intermediate_size", 21504);
  read_llama_layout(reader, config,
                    {.head_dim = 128,
                     .max_positions = 4096,
                     .epsilon = 1e-5,
                     .epsilon_key = "layer_norm_epsilon",
                     .activation_key = "mlp_hidden_act",
                     .activation = "relu2",
                     .gated = false,
                     .has_dense_layers = false,
                     .layered_rotary = true});
  config.mlp_bias = reader.boolean("mlp_bias", false);
  read_layers_of_nemotron_h(reader, config);
  read_mamba2_of_nemotron_h(reader, config);
  read_experts_of_nemotron_h(reader, config);
  read_other_keys_of_nemotron_h(reader, config);
  reader.finish(other_names(config));
  return config;
}

void write_mamba2_of_nemotron_h(const DecoderConfig& config, nlohmann::json& json) {
  const Mamba2Config& mamba = config.mamba2;
  json["mamba_num_heads"] = mamba.num_heads;
  json["mamba_head_dim"] = mamba.head_dim;
  json["n_groups"] = mamba.num_groups;
  json["ssm_state_size"] = mamba.state_dim;
  json["conv_kernel"] = mamba.conv_width;
  json["use_conv_bias"] = mamba.conv_bias;
  json["use_bias"] = mamba.projection_bias;
  json["time_step_min"] = mamba.min_step;
}

nlohmann::json write_nemotron_h(const DecoderConfig& config) {
  nlohmann::json json = write_llama_layout(config);
  for (const char* key :
       {"rms_norm_eps", "hidden_act", "rope_theta", "rope_parameters", "rope_scaling"}) {
    json.erase(key);
  }
  json["architectures"] = {"NemotronHForCausalLM"};
  json["model_type"] = "nemotron_h";
  json["layer_norm_epsilon"] = config.norm.epsilon;
  json["mlp_hidden_act"] = activation_name(config.activation.kind);
  json["mlp_bias"] = config.mlp_bias;
  json[kBlockTypes] = nlohmann::json::array();
  for (const LayerPattern& layer : config.layers) {
    json[kBlockTypes].push_back(block_type_of(layer));
  }
  write_mamba2_of_nemotron_h(config, json);
  if (config.experts.num_experts > 0) {
    write_sigmoid_experts(config, json);
    json.erase("first_k_dense_replace");
    json["n_shared_experts"] = 1;
    json["moe_shared_expert_intermediate_size"] = config.experts.shared_intermediate_size;
  }
  json["pad_token_id"] = nullptr;  // the family's default may be outside of the vocabulary
  return json;
}

}  // namespace

Family nemotron_h_family() {
  return {.model_type = "nemotron_h",
          .parse = parse_nemotron_h,
          .weights = weights_of_nemotron_h,
          .write = write_nemotron_h,
          .prefix = "backbone.",
          .other_weights = other_weights_of_nemotron_h,
          .modules = modules_of_nemotron_h,
          .prediction_prefix = "mtp."};
}

}  // namespace packtrain
