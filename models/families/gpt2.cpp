#include "models/families/gpt2.h"

#include <nlohmann/json.hpp>
#include <string>

#include "models/families/activation_config.h"
#include "models/families/layer_windows.h"
#include "models/families/llama_layout.h"

namespace packtrain {
namespace {

void read_sizes_of_gpt2(ConfigReader& reader, DecoderConfig& config) {
  config.vocab_size = reader.integer("vocab_size");
  config.hidden_size = reader.integer("n_embd");
  config.num_layers = reader.integer("n_layer");
  config.num_heads = config.num_kv_heads = reader.integer("n_head");
  config.max_positions = reader.integer("n_positions", 1024);
  config.intermediate_size = reader.integer("n_inner", 4 * config.hidden_size);
  if (config.hidden_size % config.num_heads != 0) {
    reader.fail("n_embd", "is " + std::to_string(config.hidden_size) + ", want a multiple of the " +
                              std::to_string(config.num_heads) + " attention heads");
  }
  config.head_dim = config.hidden_size / config.num_heads;
}

void read_attention_of_gpt2(ConfigReader& reader, DecoderConfig& config) {
  if (!reader.boolean("scale_attn_weights", true)) config.attention_scale = 1.0;
  config.attention_scale_by_layer = reader.boolean("scale_attn_by_inverse_layer_idx", false);
  reader.require("add_cross_attention", false);
  reader.ignore({"reorder_and_upcast_attn"});  // how float16 is kept from overflowing
}

DecoderConfig parse_gpt2(const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config;
  config.family = "gpt2";
  config.learned_positions = true;
  read_sizes_of_gpt2(reader, config);
  set_rotary_layers(config, [](std::int64_t) { return false; });
  config.norm = {.kind = NormKind::kLayer,
                 .epsilon = reader.number("layer_norm_epsilon", 1e-5),
                 .has_bias = true};
  config.qkv_bias = config.attention_output_bias = config.mlp_bias = true;
  config.tied_embeddings = reader.boolean("tie_word_embeddings", true);
  config.initializer_range = reader.number("initializer_range", 0.02);
  config.activation = {read_activation(reader, "activation_function", "gelu_new"),
                       /*gated=*/false};
  read_attention_of_gpt2(reader, config);
  check_layout(reader, config);
  reader.finish(other_names(config));
  return config;
}

void add_projection_of_gpt2(WeightMap& map, const std::string& ours, const std::string& hf,
                            std::int64_t outputs, std::int64_t inputs) {
  map.transposed(ours + ".weight", hf + ".weight", {inputs, outputs}, 0, outputs, inputs);
  map.whole(ours + ".bias", hf + ".bias", {outputs});
}

void add_layer_of_gpt2(WeightMap& map, const DecoderConfig& config, std::int64_t layer) {
  const std::string ours = "layers." + std::to_string(layer) + ".";
  const std::string hf = "transformer.h." + std::to_string(layer) + ".";
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t inner = config.intermediate_size;
  map.norm(ours + "attention_norm", hf + "ln_1", hidden, true);
  add_projection_of_gpt2(map, ours + "attention.qkv", hf + "attn.c_attn", 3 * hidden, hidden);
  add_projection_of_gpt2(map, ours + "attention.output", hf + "attn.c_proj", hidden, hidden);
  map.norm(ours + "mlp_norm", hf + "ln_2", hidden, true);
  add_projection_of_gpt2(map, ours + "mlp.up", hf + "mlp.c_fc", inner, hidden);
  add_projection_of_gpt2(map, ours + "mlp.down", hf + "mlp.c_proj", hidden, inner);
}

std::vector<WeightPiece> weights_of_gpt2(const DecoderConfig& config) {
  return decoder_weights(
      config, {.embed = "transformer.wte", .norm = "transformer.ln_f", .norm_bias = true},
      [&](WeightMap& map, std::int64_t layer) { add_layer_of_gpt2(map, config, layer); },
      [&](WeightMap& map) {
        map.linear("positions", "transformer.wpe", config.max_positions, config.hidden_size, false);
      });
}

nlohmann::json write_gpt2(const DecoderConfig& config) {
  return {
      {"architectures", {"GPT2LMHeadModel"}},
      {"model_type", "gpt2"},
      {"vocab_size", config.vocab_size},
      {"n_embd", config.hidden_size},
      {"n_layer", config.num_layers},
      {"n_head", config.num_heads},
      {"n_positions", config.max_positions},
      {"n_inner", config.intermediate_size},
      {"activation_function", activation_name(config.activation.kind)},
      {"layer_norm_epsilon", config.norm.epsilon},
      {"initializer_range", config.initializer_range},
      {"scale_attn_weights", config.attention_scale == 0},
      {"scale_attn_by_inverse_layer_idx", config.attention_scale_by_layer},
      {"tie_word_embeddings", config.tied_embeddings},
      {"attn_pdrop", 0.0},
      {"embd_pdrop", 0.0},
      {"resid_pdrop", 0.0},
      {"use_cache", true},
      // The family's default may be outside of the vocabulary.
      {"bos_token_id", nullptr},
      {"eos_token_id", nullptr},
  };
}

}  // namespace

Family gpt2_family() {
  return {.model_type = "gpt2",
          .parse = parse_gpt2,
          .weights = weights_of_gpt2,
          .write = write_gpt2,
          .prefix = "transformer."};
}

}  // namespace packtrain
