#include "models/families/dbrx.h"

#include <nlohmann/json.hpp>

#include "models/families/activation_config.h"
#include "models/families/expert_layout.h"
#include "models/families/llama_layout.h"
#include "models/families/rotary_config.h"

namespace packtrain {
namespace {

void read_sizes(ConfigReader& reader, DecoderConfig& config) {
  config.vocab_size = reader.integer("vocab_size");
  config.hidden_size = reader.integer("d_model");
  config.num_layers = reader.integer("n_layers");
  config.num_heads = reader.integer("n_heads");
  config.max_positions = reader.integer("max_seq_len", 2048);
  config.initializer_range = reader.number("initializer_range", 0.02);
  if (config.hidden_size % (2 * config.num_heads) != 0) {
    reader.fail("d_model", "is " + std::to_string(config.hidden_size) +
                               ", want heads of an even width: a multiple of twice the " +
                               std::to_string(config.num_heads) + " of n_heads");
  }
  config.head_dim = config.hidden_size / config.num_heads;
  config.norm = {.kind = NormKind::kLayer, .epsilon = 1e-5};
  reader.require("tie_word_embeddings", false);
}

// transformers 5 has its own rotary base in addition to that of attn_config; both must be equal.
void read_attention(ConfigReader& reader, DecoderConfig& config) {
  ConfigReader attention = reader.object("attn_config");
  config.num_kv_heads = attention.integer("kv_n_heads", 1);
  if (config.num_heads % config.num_kv_heads != 0) {
    attention.fail("kv_n_heads", "is " + std::to_string(config.num_kv_heads) +
                                     ", want a divisor of the " + std::to_string(config.num_heads) +
                                     " of n_heads");
  }
  reader.require("num_key_value_heads", config.num_kv_heads);
  if (attention.has("clip_qkv")) {
    config.clip_qkv = attention.number("clip_qkv");
    if (config.clip_qkv <= 0) attention.fail("clip_qkv", "must be positive, or null");
  }
  const double base = attention.number("rope_theta", 10000.0);
  read_rotary(reader, config, {.base = base});
  attention.require("rope_theta", config.rotary.base);
  attention.finish();
}

void read_experts(ConfigReader& reader, DecoderConfig& config) {
  ConfigReader ffn = reader.object("ffn_config");
  ffn.require("hidden_size", config.hidden_size);
  config.intermediate_size = ffn.integer("ffn_hidden_size", 3584);
  config.experts.num_experts = ffn.integer("moe_num_experts", 4);
  config.experts.intermediate_size = config.intermediate_size;
  read_experts_per_token(ffn, config, 1, "moe_top_k");
  ffn.require("moe_normalize_expert_weights", 1.0);
  config.experts.normalize_weights = ffn.number_or_none("moe_normalize_expert_weights", 1.0) != 0;
  ffn.require("moe_jitter_eps", 0.0);
  const double coefficient = ffn.number("moe_loss_weight", 0.01);
  reader.require("router_aux_loss_coef", coefficient);  // a second time in published configs
  config.experts.auxiliary_loss = reader.boolean("output_router_logits", false) ? coefficient : 0.0;
  ConfigReader activation = ffn.object("ffn_act_fn");
  config.activation = {read_activation(activation, "name", "silu"), /*gated=*/true};
  activation.finish();
  ffn.finish();
  set_expert_layers(config, [](std::int64_t) { return true; });
}

DecoderConfig parse_dbrx(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "dbrx";
  read_sizes(reader, config);
  read_attention(reader, config);
  read_experts(reader, config);
  check_layout(reader, config);
  reader.finish(other_names(config));
  return config;
}

nlohmann::json attention_json(const DecoderConfig& config) {
  nlohmann::json json = {{"kv_n_heads", config.num_kv_heads},
                         {"rope_theta", config.rotary.base},
                         {"attn_pdrop", 0.0},
                         {"clip_qkv", nullptr}};
  if (config.clip_qkv > 0) json["clip_qkv"] = config.clip_qkv;
  return json;
}

nlohmann::json experts_json(const DecoderConfig& config) {
  nlohmann::json json = {{"ffn_hidden_size", config.experts.intermediate_size},
                         {"moe_num_experts", config.experts.num_experts},
                         {"moe_top_k", config.experts.experts_per_token},
                         {"moe_normalize_expert_weights", nullptr},
                         {"ffn_act_fn", {{"name", activation_name(config.activation.kind)}}}};
  if (config.experts.normalize_weights) json["moe_normalize_expert_weights"] = 1.0;
  if (config.experts.auxiliary_loss != 0) json["moe_loss_weight"] = config.experts.auxiliary_loss;
  return json;
}

nlohmann::json write_dbrx(const DecoderConfig& config) {
  return {{"architectures", {"DbrxForCausalLM"}},
          {"model_type", "dbrx"},
          {"vocab_size", config.vocab_size},
          {"d_model", config.hidden_size},
          {"n_layers", config.num_layers},
          {"n_heads", config.num_heads},
          {"max_seq_len", config.max_positions},
          {"initializer_range", config.initializer_range},
          {"tie_word_embeddings", false},
          {"resid_pdrop", 0.0},
          {"emb_pdrop", 0.0},
          {"use_cache", true},
          {"output_router_logits", config.experts.auxiliary_loss != 0},
          {"rope_parameters", write_rotary(config)},
          {"attn_config", attention_json(config)},
          {"ffn_config", experts_json(config)}};
}

// w1 (gate), v1 (up) and w2 (down, as [in, out]) stack the rows of all experts.
void add_layer_of_dbrx(WeightMap& map, const DecoderConfig& config, std::int64_t layer) {
  const std::string ours = "layers." + std::to_string(layer) + ".";
  const std::string theirs = "transformer.blocks." + std::to_string(layer) + ".";
  const std::string attention = theirs + "norm_attn_norm.";
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t inner = config.experts.intermediate_size;
  const std::int64_t count = config.experts.num_experts;
  const std::int64_t kv = config.num_kv_heads * config.head_dim;
  map.norm(ours + "attention_norm", attention + "norm_1", hidden);
  map.linear(ours + "attention.qkv", attention + "attn.Wqkv", hidden + 2 * kv, hidden, false);
  map.linear(ours + "attention.output", attention + "attn.out_proj", hidden, hidden, false);
  map.norm(ours + "mlp_norm", attention + "norm_2", hidden);
  map.linear(ours + "mlp.router", theirs + "ffn.router.layer", count, hidden, false);
  const std::string experts = theirs + "ffn.experts.mlp.";
  const std::vector<std::int64_t> shape = {count * inner, hidden};
  const std::int64_t size = inner * hidden;
  for (std::int64_t e = 0; e < count; ++e) {
    map.part(ours + "mlp.experts.gate_up.weight", experts + "w1", shape, e * size, size);
    map.part(ours + "mlp.experts.gate_up.weight", experts + "v1", shape, e * size, size);
    map.transposed(ours + "mlp.experts.down.weight", experts + "w2", shape, e * size, hidden,
                   inner);
  }
}

std::vector<WeightPiece> weights_of_dbrx(const DecoderConfig& config) {
  return decoder_weights(
      config, {.embed = "transformer.wte", .norm = "transformer.norm_f"},
      [&](WeightMap& map, std::int64_t layer) { add_layer_of_dbrx(map, config, layer); });
}

}  // namespace

Family dbrx_family() {
  return {.model_type = "dbrx",
          .parse = parse_dbrx,
          .weights = weights_of_dbrx,
          .write = write_dbrx,
          .prefix = "transformer."};
}

}  // namespace packtrain
