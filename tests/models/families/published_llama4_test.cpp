// Configs with the keys that published folders of Llama 4 have.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "models/families/family.h"
#include "models/families/text_part.h"
#include "models/layers/layer_attention.h"
#include "tests/models/llama_config.h"

namespace packtrain::published_llama4_test {
namespace {

using test::message_of;
using test::read_and_written;

// As the text_config of Scout, with fewer layers.
nlohmann::json scout() {
  return nlohmann::json::parse(R"({
    "_attn_implementation_autoset": true, "attention_bias": false, "attention_chunk_size": 8192,
    "attention_dropout": 0.0, "attn_scale": 0.1, "attn_temperature_tuning": 4,
    "bos_token_id": 200000, "eos_token_id": [200001, 200007, 200008], "floor_scale": 8192,
    "for_llm_compressor": false, "head_dim": 128, "hidden_act": "silu", "hidden_size": 5120,
    "initializer_range": 0.02, "interleave_moe_layer_step": 1, "intermediate_size": 8192,
    "intermediate_size_mlp": 16384, "max_position_embeddings": 10485760,
    "model_type": "llama4_text", "moe_layers": [0, 1, 2, 3], "no_rope_layers": [],
    "num_attention_heads": 40, "num_experts_per_tok": 1, "num_hidden_layers": 4,
    "num_key_value_heads": 8, "num_local_experts": 16, "output_router_logits": false,
    "pad_token_id": 200018, "rms_norm_eps": 1e-05,
    "rope_scaling": {"factor": 16.0, "high_freq_factor": 1.0, "low_freq_factor": 1.0,
                     "original_max_position_embeddings": 8192, "rope_type": "llama3"},
    "rope_theta": 500000.0, "router_aux_loss_coef": 0.001, "router_jitter_noise": 0.0,
    "torch_dtype": "bfloat16", "use_cache": true, "use_qk_norm": true, "vocab_size": 202048})");
}

TEST(PublishedLlama4, OfScoutHaveChunksInTheLayersThatTurn) {
  const DecoderConfig config = read_and_written(scout());
  for (std::int64_t layer = 0; layer < 4; ++layer) {
    const bool turns = layer != 3;
    EXPECT_EQ(config.rotary_of(layer).rotates, turns) << layer;
    EXPECT_EQ(config.layer(layer).attention, (AttentionPattern{.chunk = turns ? 8192 : 0}));
    EXPECT_EQ(qk_norm_of(config, layer), turns ? QkNormKind::kHeadUnit : QkNormKind::kNone);
    EXPECT_EQ(query_temperature_of(config, layer).beta, turns ? 0.0 : 0.1) << layer;
    EXPECT_TRUE(config.layer(layer).experts);
  }
  EXPECT_EQ(config.experts.intermediate_size, 8192);
  EXPECT_EQ(config.experts.shared_intermediate_size, 8192);
  EXPECT_EQ(config.intermediate_size, 16384);
  EXPECT_TRUE(config.experts.weighted_inputs);
}

TEST(PublishedLlama4, OfMaverickHaveExpertsInEverySecondLayer) {
  nlohmann::json json = scout();
  json.erase("moe_layers");
  json["interleave_moe_layer_step"] = 2;
  json["num_local_experts"] = 128;
  json["rope_scaling"] = nullptr;
  json["use_qk_norm"] = false;
  const DecoderConfig config = read_and_written(json);
  for (std::int64_t layer = 0; layer < 4; ++layer) {
    EXPECT_EQ(config.layer(layer).experts, layer % 2 == 1) << layer;
    EXPECT_EQ(qk_norm_of(config, layer), QkNormKind::kNone);
  }
}

TEST(PublishedLlama4, AreReadFromTheWholeModel) {
  const nlohmann::json whole = {{"model_type", "llama4"},
                                {"text_config", scout()},
                                {"vision_config", {{"model_type", "llama4_vision_model"}}}};
  EXPECT_EQ(parse_decoder_config(text_part(whole).dump()), parse_decoder_config(scout().dump()));
}

TEST(PublishedLlama4, NameTheKeyThatIsNotComputed) {
  const std::vector<std::pair<const char*, nlohmann::json>> changes = {
      {"attention_chunk_size", nullptr},
      {"layer_types", {"chunked_attention", "full_attention"}},
      {"layer_types", std::vector<std::string>(4, "sliding_attention")},
      {"attn_scale", -1.0},
      {"attention_dropout", 0.1}};
  for (const auto& [key, value] : changes) {
    nlohmann::json json = scout();
    json[key] = value;
    EXPECT_NE(message_of(json).find(std::string("'") + key + "'"), std::string::npos) << key;
  }
}

}  // namespace
}  // namespace packtrain::published_llama4_test
