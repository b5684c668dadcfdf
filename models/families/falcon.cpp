#include "models/families/falcon.h"

#include <nlohmann/json.hpp>
#include <string>

#include "models/families/activation_config.h"
#include "models/families/llama_layout.h"
#include "models/families/rotary_config.h"

namespace packtrain {
namespace {

// Reads the numbers of heads and how the two branches of a layer are connected.
void read_architecture(ConfigReader& reader, DecoderConfig& config) {
  const bool is_new = reader.boolean("new_decoder_architecture", false);
  const bool multi_query = reader.boolean("multi_query", true);
  const bool parallel = reader.boolean("parallel_attn", true);
  const std::int64_t kv_heads = reader.integer("num_kv_heads", config.num_heads);
  const std::int64_t norms = reader.integer("num_ln_in_parallel_attn", is_new ? 2 : 1);
  config.num_kv_heads = is_new || !multi_query ? kv_heads : 1;
  if (is_new ? !parallel : norms != 1) {
    reader.fail(is_new ? "parallel_attn" : "num_ln_in_parallel_attn",
                "is not what this kind of decoder has (new_decoder_architecture)");
  }
  if (!is_new && !multi_query && kv_heads != config.num_heads) {
    reader.fail("num_kv_heads", "is " + std::to_string(kv_heads) + ", want num_attention_heads");
  }
  if (norms > 2) reader.fail("num_ln_in_parallel_attn", "is more than 2");
  if (!parallel) {
    config.residual = ResidualKind::kSequential;
  } else {
    config.residual = norms == 2 ? ResidualKind::kParallelTwoNorms : ResidualKind::kParallel;
  }
}

DecoderConfig parse_falcon(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "falcon";
  config.vocab_size = reader.integer("vocab_size");
  config.hidden_size = reader.integer("hidden_size");
  config.intermediate_size = reader.integer("ffn_hidden_size", 4 * config.hidden_size);
  config.num_layers = reader.integer("num_hidden_layers");
  config.num_heads = reader.integer("num_attention_heads");
  read_architecture(reader, config);
  if (config.hidden_size % config.num_heads != 0) {
    reader.fail("hidden_size", "must be a multiple of num_attention_heads");
  }
  config.head_dim = config.hidden_size / config.num_heads;
  config.max_positions = reader.integer("max_position_embeddings", 2048);
  config.norm = {.kind = NormKind::kLayer,
                 .epsilon = reader.number("layer_norm_epsilon", 1e-5),
                 .has_bias = true};
  config.qkv_bias = reader.boolean("bias", false);
  config.attention_output_bias = config.qkv_bias;
  config.mlp_bias = config.qkv_bias;
  config.activation = {read_activation(reader, "activation", "gelu"), /*gated=*/false};
  config.tied_embeddings = reader.boolean("tie_word_embeddings", true);
  config.initializer_range = reader.number("initializer_range", 0.02);
  read_rotary(reader, config);
  reader.require("alibi", false);
  reader.require("apply_residual_connection_post_layernorm", false);  // in older configs
  reader.ignore({"ff_factor"});  // in the config of 11B; ffn_hidden_size has the same information
  check_layout(reader, config);
  reader.finish(other_names(config));
  return config;
}

void add_part_of_qkv(WeightMap& map, const DecoderConfig& config, const std::string& ours,
                     const std::string& hf, const std::vector<std::int64_t>& shape,
                     std::int64_t row_size) {
  const std::int64_t groups = config.num_kv_heads;
  const std::int64_t queries = config.num_heads / groups;
  const std::int64_t head = config.head_dim * row_size;
  const std::int64_t stride = (queries + 2) * head;
  map.strided(ours, hf, shape, {0, groups, queries * head, stride});
  map.strided(ours, hf, shape, {queries * head, groups, head, stride});
  map.strided(ours, hf, shape, {(queries + 1) * head, groups, head, stride});
}

void add_norms(WeightMap& map, const DecoderConfig& config, const std::string& ours,
               const std::string& hf) {
  const bool two = config.residual == ResidualKind::kParallelTwoNorms;
  const std::int64_t hidden = config.hidden_size;
  map.norm(ours + "attention_norm", hf + (two ? "ln_attn" : "input_layernorm"), hidden, true);
  if (config.has_shared_norm()) return;
  map.norm(ours + "mlp_norm", hf + (two ? "ln_mlp" : "post_attention_layernorm"), hidden, true);
}

void add_layer_of_falcon(WeightMap& map, const DecoderConfig& config, std::int64_t layer) {
  const std::string ours = "layers." + std::to_string(layer) + ".";
  const std::string hf = "transformer.h." + std::to_string(layer) + ".";
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t inner = config.intermediate_size;
  add_norms(map, config, ours, hf);
  add_qkv_by_groups(map, config, ours + "attention.qkv", hf + "self_attention.query_key_value");
  map.linear(ours + "attention.output", hf + "self_attention.dense", hidden, hidden,
             config.attention_output_bias);
  map.linear(ours + "mlp.up", hf + "mlp.dense_h_to_4h", inner, hidden, config.mlp_bias);
  map.linear(ours + "mlp.down", hf + "mlp.dense_4h_to_h", hidden, inner, config.mlp_bias);
}

std::vector<WeightPiece> weights_of_falcon(const DecoderConfig& config) {
  return decoder_weights(
      config,
      {.embed = "transformer.word_embeddings", .norm = "transformer.ln_f", .norm_bias = true},
      [&](WeightMap& map, std::int64_t layer) { add_layer_of_falcon(map, config, layer); });
}

nlohmann::json write_falcon(const DecoderConfig& config) {
  const bool one_key_head = config.num_kv_heads == 1;
  const bool parallel = config.residual != ResidualKind::kSequential;
  // The older decoder has one norm, and one key head or as many as query heads.
  const bool is_new =
      config.residual == ResidualKind::kParallelTwoNorms || (parallel && !one_key_head);
  nlohmann::json json = write_common_layout(config);
  json.update({
      {"architectures", {"FalconForCausalLM"}},
      {"model_type", "falcon"},
      {"ffn_hidden_size", config.intermediate_size},
      {"num_kv_heads", config.num_kv_heads},
      {"new_decoder_architecture", is_new},
      {"multi_query", one_key_head},
      {"parallel_attn", parallel},
      {"num_ln_in_parallel_attn", config.residual == ResidualKind::kParallelTwoNorms ? 2 : 1},
      {"layer_norm_epsilon", config.norm.epsilon},
      {"bias", config.qkv_bias},
      {"activation", activation_name(config.activation.kind)},
      {"alibi", false},
      {"hidden_dropout", 0.0},
  });
  return json;
}

}  // namespace

void add_qkv_by_groups(WeightMap& map, const DecoderConfig& config, const std::string& ours,
                       const std::string& hf) {
  const std::int64_t rows = (config.num_heads + 2 * config.num_kv_heads) * config.head_dim;
  const std::int64_t hidden = config.hidden_size;
  add_part_of_qkv(map, config, ours + ".weight", hf + ".weight", {rows, hidden}, hidden);
  if (config.qkv_bias) add_part_of_qkv(map, config, ours + ".bias", hf + ".bias", {rows}, 1);
}

Family falcon_family() {
  return {"falcon", parse_falcon, weights_of_falcon, write_falcon, "transformer."};
}

}  // namespace packtrain
