// Configs with the keys that published folders of Gemma 3n have.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "models/families/family.h"
#include "models/families/text_part.h"
#include "tests/models/llama_config.h"

namespace packtrain::published_gemma3n_test {
namespace {

using test::message_of;
using test::read_and_written;

std::vector<std::string> kinds_of_layers(int num_layers) {
  std::vector<std::string> kinds;
  for (int layer = 0; layer < num_layers; ++layer) {
    kinds.emplace_back((layer + 1) % 5 == 0 ? "full_attention" : "sliding_attention");
  }
  return kinds;
}

// As the text_config of E2B or E4B.
nlohmann::json gemma3n(int num_layers, int num_shared, int intermediate_size) {
  auto json = nlohmann::json::parse(R"({
    "altup_active_idx": 0, "altup_coef_clip": 120.0, "altup_correct_scale": true,
    "altup_lr_multiplier": 1.0, "altup_num_inputs": 4, "attention_bias": false,
    "attention_dropout": 0.0, "final_logit_softcapping": 30.0, "head_dim": 256,
    "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 2048,
    "hidden_size_per_layer_input": 256, "initializer_range": 0.02, "laurel_rank": 64,
    "max_position_embeddings": 32768, "model_type": "gemma3n_text", "num_attention_heads": 8,
    "num_key_value_heads": 2, "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06,
    "rope_local_base_freq": 10000.0, "rope_scaling": null, "rope_theta": 1000000.0,
    "sliding_window": 512, "torch_dtype": "bfloat16", "use_cache": true, "vocab_size": 262400,
    "vocab_size_per_layer_input": 262144})");
  json["num_hidden_layers"] = num_layers;
  json["num_kv_shared_layers"] = num_shared;
  json["intermediate_size"] =
      std::vector<int>(static_cast<std::size_t>(num_layers), intermediate_size);
  json["layer_types"] = kinds_of_layers(num_layers);
  std::vector<double> sparsity(static_cast<std::size_t>(num_layers), 0.0);
  for (std::size_t layer = 0; layer < 10; ++layer) sparsity[layer] = 0.95;
  json["activation_sparsity_pattern"] = sparsity;
  return json;
}

nlohmann::json e2b() {
  return gemma3n(30, 10, 8192);
}

TEST(PublishedGemma3n, OfE2BHaveCopiesInputsAndCutoffs) {
  const DecoderConfig config = read_and_written(e2b());
  EXPECT_EQ(config.altup,
            (AltUpConfig{.num_copies = 4, .coefficient_clip = 120, .laurel_rank = 64}));
  EXPECT_EQ(config.stream_width(), 4 * 2048);
  EXPECT_EQ(config.layer_input_width, 256);
  EXPECT_EQ(config.num_layer_input_rows(), 262144);
  for (std::int64_t layer = 0; layer < 30; ++layer) {
    EXPECT_EQ(config.layer(layer).gate_sparsity, layer < 10 ? 0.95 : 0.0) << layer;
    EXPECT_EQ(config.intermediate_size_of(layer), 8192) << layer;
  }
}

TEST(PublishedGemma3n, OfE2BReadKeysOfTheLastLayersOfTheirKinds) {
  const DecoderConfig config = read_and_written(e2b());
  for (std::int64_t layer = 0; layer < 30; ++layer) {
    const LayerPattern pattern = config.layer(layer);
    const bool is_full = layer % 5 == 4;
    EXPECT_EQ(pattern.attention, (AttentionPattern{.window = is_full ? 0 : 512})) << layer;
    EXPECT_EQ(pattern.keys_of_layer, layer < 20 ? -1 : is_full ? 19 : 18) << layer;
    EXPECT_EQ(pattern.keeps_keys, layer == 18 || layer == 19) << layer;
    EXPECT_EQ(config.rotary_of(layer).base, is_full ? 1e6 : 1e4) << layer;
  }
}

TEST(PublishedGemma3n, OfE4BAreReadFromTheWholeModel) {
  const nlohmann::json text = gemma3n(35, 15, 16384);
  const nlohmann::json whole = {{"model_type", "gemma3n"},
                                {"text_config", text},
                                {"audio_config", {{"model_type", "gemma3n_audio"}}},
                                {"vision_config", {{"model_type", "gemma3n_vision"}}}};
  const DecoderConfig config = parse_decoder_config(text_part(whole).dump());
  EXPECT_EQ(config, read_and_written(text));
  EXPECT_EQ(config.layer(20).keys_of_layer, 18);
  EXPECT_EQ(config.layer(34).keys_of_layer, 19);
}

// transformers' fallbacks of E4B's sizes.
TEST(PublishedGemma3n, KeysThatAreNotSetMeanThoseOfE4B) {
  nlohmann::json text = gemma3n(35, 15, 16384);
  const DecoderConfig config = parse_decoder_config(text.dump());
  for (const char* key : {"altup_active_idx", "altup_coef_clip", "altup_num_inputs", "laurel_rank",
                          "num_kv_shared_layers", "layer_types", "activation_sparsity_pattern",
                          "hidden_size_per_layer_input", "vocab_size_per_layer_input",
                          "sliding_window", "final_logit_softcapping", "head_dim"}) {
    text.erase(key);
  }
  text["intermediate_size"] = 16384;
  EXPECT_EQ(parse_decoder_config(text.dump()), config);
}

TEST(PublishedGemma3n, NameTheKeyThatIsNotComputed) {
  const std::vector<std::pair<const char*, nlohmann::json>> changes = {
      {"altup_correct_scale", false},
      {"altup_num_inputs", 1},
      {"altup_active_idx", 4},
      {"altup_coef_clip", -1.0},
      {"activation_sparsity_pattern", {0.95, 0.0}},
      {"activation_sparsity_pattern", std::vector<double>(30, 1.0)},
      {"intermediate_size", {8192, 8192}},
      {"intermediate_size", std::vector<int>(30, 0)},
      {"num_kv_shared_layers", 30},
      {"num_kv_shared_layers", 27},
      {"final_logit_softcapping", 0.0},
      {"hidden_size_per_layer_input", 0}};
  for (const auto& [key, value] : changes) {
    nlohmann::json json = e2b();
    json[key] = value;
    EXPECT_NE(message_of(json).find(key), std::string::npos) << key << ": " << message_of(json);
  }
}

}  // namespace
}  // namespace packtrain::published_gemma3n_test
