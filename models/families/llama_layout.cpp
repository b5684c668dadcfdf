#include "models/families/llama_layout.h"

#include <nlohmann/json.hpp>

#include "models/families/activation_config.h"
#include "models/families/latent_layout.h"
#include "models/families/rotary_config.h"

namespace packtrain {
namespace {

void check_sizes(const DecoderConfig& config, ConfigReader& reader) {
  if (config.num_heads % config.num_kv_heads != 0) {
    reader.fail("num_key_value_heads", "is " + std::to_string(config.num_kv_heads) +
                                           ", want a divisor of the " +
                                           std::to_string(config.num_heads) + " attention heads");
  }
  if (config.head_dim % 2 != 0 && !config.learned_positions) {
    reader.fail("head_dim", "is " + std::to_string(config.head_dim) +
                                ", want an even number (rotary positions turn pairs)");
  }
  if (config.norm.epsilon <= 0) {
    reader.fail("rms_norm_eps", "(or the family's own name of it) must be positive");
  }
  if (config.initializer_range < 0) {
    reader.fail("initializer_range", "must not be negative");
  }
}

std::int64_t read_head_dim(ConfigReader& reader, const DecoderConfig& config,
                           std::int64_t fallback) {
  if (reader.has("head_dim") || fallback > 0) {
    return reader.integer("head_dim", fallback);
  }
  if (config.hidden_size % config.num_heads != 0) {
    reader.fail("hidden_size", "is " + std::to_string(config.hidden_size) +
                                   ", want a multiple of the " + std::to_string(config.num_heads) +
                                   " attention heads, or head_dim set");
  }
  return config.hidden_size / config.num_heads;
}

void add_norm(WeightMap& list, bool wanted, const DecoderConfig& config, const std::string& ours,
              const std::string& hf) {
  if (wanted && config.norm.has_weight) {
    list.norm(ours, hf, config.hidden_size, config.norm.has_bias);
  }
}

void add_qk_norm(WeightMap& list, const DecoderConfig& config, const AddLayerParts& add,
                 const std::string& ours, const std::string& hf, std::int64_t heads) {
  if (config.qk_norm == QkNormKind::kHeadLayer && add.stacked_head_norms) {
    list.whole(ours + ".weight", hf + "norm.weight", {heads, config.head_dim});
  } else if (config.qk_norm == QkNormKind::kHeadLayer) {
    for (std::int64_t head = 0; head < heads; ++head) {
      list.norm(ours, hf + "layernorm.norms." + std::to_string(head), config.head_dim);
    }
  } else if (config.qk_norm == QkNormKind::kTurnedHead) {
    list.norm(ours, hf + "layernorm", config.head_dim);
  } else if (config.qk_norm == QkNormKind::kHead || config.qk_norm == QkNormKind::kFull) {
    const bool full = config.qk_norm == QkNormKind::kFull;
    list.norm(ours, hf + "norm", full ? heads * config.head_dim : config.head_dim);
  }
}

// The rows of queries. Our gates are first. Without a projection of their own, q_proj has both of
// each head.
void add_queries(WeightMap& list, const DecoderConfig& config, const AddLayerParts& add,
                 const std::string& ours, const std::string& attention) {
  const std::string hf = attention + "q_proj";
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t heads = config.num_heads;
  const std::int64_t dim = config.head_dim;
  if (add.attention_gate != nullptr) {
    list.linear(ours, attention + add.attention_gate, heads * dim, hidden, config.qkv_bias);
  }
  if (!config.attention_gate || add.attention_gate != nullptr) {
    list.linear(ours, hf, heads * dim, hidden, config.qkv_bias);
    return;
  }
  for (const std::int64_t part : {1, 0}) {
    list.strided(ours + ".weight", hf + ".weight", {2 * heads * dim, hidden},
                 {part * dim * hidden, heads, dim * hidden, 2 * dim * hidden});
    if (!config.qkv_bias) continue;
    list.strided(ours + ".bias", hf + ".bias", {2 * heads * dim},
                 {part * dim, heads, dim, 2 * dim});
  }
}

void add_attention(WeightMap& list, const DecoderConfig& config, const AddLayerParts& add,
                   const std::string& ours, const std::string& hf) {
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t q = config.num_heads * config.head_dim;
  const std::int64_t kv = config.num_kv_heads * config.head_dim;
  add_queries(list, config, add, ours + "qkv", hf);
  list.linear(ours + "qkv", hf + "k_proj", kv, hidden, config.qkv_bias);
  list.linear(ours + "qkv", hf + "v_proj", kv, hidden, config.qkv_bias);
  const bool whole_names = config.qk_norm == QkNormKind::kTurnedHead;
  add_qk_norm(list, config, add, ours + "query_norm", hf + (whole_names ? "query_" : "q_"),
              config.num_heads);
  add_qk_norm(list, config, add, ours + "key_norm", hf + (whole_names ? "key_" : "k_"),
              config.num_kv_heads);
  if (config.attention_sinks) list.whole(ours + "sinks", hf + "sinks", {config.num_heads});
  list.linear(ours + "output", hf + "o_proj", hidden, q, config.attention_output_bias);
}

void add_mlp(WeightMap& list, const DecoderConfig& config, const std::string& ours,
             const std::string& hf) {
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t inner = config.intermediate_size;
  if (config.activation.gated) {
    list.linear(ours + "gate_up", hf + "gate_proj", inner, hidden, config.mlp_bias);
  }
  list.linear(ours + (config.activation.gated ? "gate_up" : "up"), hf + "up_proj", inner, hidden,
              config.mlp_bias);
  list.linear(ours + "down", hf + "down_proj", hidden, inner, config.mlp_bias);
}

void add_layer_of_llama_layout(WeightMap& list, const DecoderConfig& config, std::int64_t layer,
                               const AddLayerParts& add) {
  const std::string ours = "layers." + std::to_string(layer) + ".";
  const std::string hf = "model." + ours;
  const bool before = config.has_norm_before(layer);
  const bool after = config.has_norm_after(layer);
  add_norm(list, before, config, ours + "attention_norm", hf + "input_layernorm");
  if (!config.layer(layer).has_attention()) {
    add.mixer(list, layer);
  } else if (config.has_latent_attention()) {
    add_latent_attention(list, config, layer);
  } else {
    add_attention(list, config, add, ours + "attention.", hf + "self_attn.");
  }
  if (config.layer(layer).parallel_mamba2) add.mixer(list, layer);
  add_norm(list, after, config, ours + "attention_post_norm", hf + "post_attention_layernorm");
  add_norm(list, before && !config.has_shared_norm(), config, ours + "mlp_norm",
           hf + (after ? "pre_feedforward_layernorm" : "post_attention_layernorm"));
  add_norm(list, after, config, ours + "mlp_post_norm", hf + "post_feedforward_layernorm");
  if (config.layer(layer).experts) return add.experts(list, layer);
  if (add.mlp) return add.mlp(list, layer);
  add_mlp(list, config, ours + "mlp.", hf + "mlp.");
}

}  // namespace

void check_layout(ConfigReader& reader, const DecoderConfig& config) {
  check_sizes(config, reader);
  // Older versions of transformers split the same products into this number of parts.
  reader.ignore({"pretraining_tp"});
  for (const char* key : {"is_causal", "causal", "use_rope", "use_rotary"}) {
    reader.require(key, true);  // the tensors do not show when it is false
  }
}

void read_llama_layout(ConfigReader& reader, DecoderConfig& config, const LlamaLayout& layout) {
  config.vocab_size = reader.integer("vocab_size");
  config.hidden_size = reader.integer("hidden_size");
  if (layout.has_dense_layers) config.intermediate_size = reader.integer("intermediate_size");
  config.num_layers = reader.integer("num_hidden_layers");
  config.num_heads = reader.integer("num_attention_heads");
  config.num_kv_heads = reader.integer("num_key_value_heads", config.num_heads);
  if (layout.has_head_dim) config.head_dim = read_head_dim(reader, config, layout.head_dim);
  config.max_positions = reader.integer("max_position_embeddings", layout.max_positions);
  config.norm.epsilon =
      layout.has_epsilon ? reader.number(layout.epsilon_key, layout.epsilon) : layout.epsilon;
  config.tied_embeddings = reader.boolean("tie_word_embeddings", layout.tied);
  config.initializer_range = reader.number("initializer_range", 0.02);
  if (!layout.layered_rotary) read_rotary(reader, config, layout.rotary);
  config.activation = {read_activation(reader, layout.activation_key, layout.activation),
                       layout.gated};
  check_layout(reader, config);
}

std::vector<WeightPiece> llama_layout_weights(const DecoderConfig& config) {
  return llama_layout_weights(config, AddLayerParts{});
}

std::vector<WeightPiece> llama_layout_weights(const DecoderConfig& config,
                                              const AddPart& add_experts) {
  return llama_layout_weights(config, AddLayerParts{.experts = add_experts});
}

std::vector<WeightPiece> llama_layout_weights(const DecoderConfig& config,
                                              const AddLayerParts& add) {
  WeightMap list;
  list.linear("embed", "model.embed_tokens", config.vocab_size, config.hidden_size, false);
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
    add_layer_of_llama_layout(list, config, layer, add);
  }
  add_norm(list, true, config, "final_norm", "model.norm");
  if (!config.tied_embeddings) {
    list.linear("head", "lm_head", config.vocab_size, config.hidden_size, false);
  }
  if (config.head_bias) list.whole("head.bias", "lm_head.bias", {config.vocab_size});
  return list.take();
}

std::vector<WeightPiece> with_module_names(std::vector<WeightPiece> pieces,
                                           const std::map<std::string, std::string>& names) {
  for (WeightPiece& piece : pieces) {
    // The module is between the last two points.
    const std::size_t end = piece.hf_name.rfind('.');
    if (end == std::string::npos || end == 0) continue;
    const std::size_t begin = piece.hf_name.rfind('.', end - 1) + 1;
    const auto found = names.find(piece.hf_name.substr(begin, end - begin));
    if (found != names.end()) piece.hf_name.replace(begin, end - begin, found->second);
  }
  return pieces;
}

nlohmann::json write_common_layout(const DecoderConfig& config) {
  return {
      {"vocab_size", config.vocab_size},
      {"hidden_size", config.hidden_size},
      {"num_hidden_layers", config.num_layers},
      {"num_attention_heads", config.num_heads},
      {"max_position_embeddings", config.max_positions},
      {"tie_word_embeddings", config.tied_embeddings},
      {"initializer_range", config.initializer_range},
      {"attention_dropout", 0.0},
      {"use_cache", true},
      // The family's defaults (1 and 2) are wrong for most tokenizers.
      {"bos_token_id", nullptr},
      {"eos_token_id", nullptr},
      {"rope_theta", config.rotary.base},  // for transformers before 5
      {"rope_parameters", write_rotary(config)},
      {"rope_scaling", write_rope_scaling(config)},
  };
}

nlohmann::json write_llama_layout(const DecoderConfig& config) {
  nlohmann::json json = write_common_layout(config);
  json["intermediate_size"] = config.intermediate_size;
  json["num_key_value_heads"] = config.num_kv_heads;
  json["head_dim"] = config.head_dim;
  json["rms_norm_eps"] = config.norm.epsilon;
  json["hidden_act"] = activation_name(config.activation.kind);
  return json;
}

}  // namespace packtrain
