// Configs of families without experts: defaults, and keys that differ from those of related ones.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "models/families/family.h"
#include "tests/models/llama_config.h"

namespace packtrain::published_dense_test {
namespace {

using test::message_of;
using test::read_and_written;

nlohmann::json small(const std::string& type, const nlohmann::json& changes) {
  nlohmann::json json = {{"model_type", type},      {"vocab_size", 33},
                         {"hidden_size", 24},       {"intermediate_size", 20},
                         {"num_hidden_layers", 4},  {"num_attention_heads", 6},
                         {"num_key_value_heads", 2}};
  json.update(changes);
  return json;
}

void expect_refused(const nlohmann::json& json, const std::string& key) {
  EXPECT_NE(message_of(json).find("'" + key + "'"), std::string::npos) << message_of(json);
}

TEST(PublishedDense, CommandRTurnsInEachLayer) {
  const DecoderConfig config = read_and_written(small("cohere", {{"rope_theta", 8e6}}));
  EXPECT_EQ(config.residual, ResidualKind::kParallel);
  EXPECT_EQ(config.norm.kind, NormKind::kLayer);
  EXPECT_TRUE(config.interleaved_rotary);
  EXPECT_TRUE(config.tied_embeddings);
  EXPECT_DOUBLE_EQ(config.logit_multiplier, 0.0625);
  for (std::int64_t layer = 0; layer < 4; ++layer) {
    EXPECT_TRUE(config.layer(layer).attention.is_full());
    EXPECT_FALSE(config.layer(layer).no_rotary);
  }
}

TEST(PublishedDense, CommandRPlusHasNormsOfHeads) {
  const DecoderConfig config = read_and_written(small("cohere", {{"use_qk_norm", true}}));
  EXPECT_EQ(config.qk_norm, QkNormKind::kHeadLayer);
}

TEST(PublishedDense, VaultGemmaHasNoNormsAfterBranches) {
  const DecoderConfig config = read_and_written(small("vaultgemma", {{"head_dim", 6}}));
  EXPECT_TRUE(config.norm_before);
  EXPECT_FALSE(config.norm_after);
  EXPECT_EQ(config.attention_soft_cap, 50);
  EXPECT_EQ(config.layer(0).attention.window, 4096);
  EXPECT_TRUE(config.layer(1).attention.is_full());
}

TEST(PublishedDense, HeliumsHeadsTogetherAreAsWideAsTheHiddenState) {
  EXPECT_EQ(read_and_written(small("helium", {{"head_dim", 4}})).norm.epsilon, 1e-8);
  expect_refused(small("helium", {{"head_dim", 6}}), "head_dim");
}

TEST(PublishedDense, YoutusRandomWeightsAreNarrowerInWiderModels) {
  const nlohmann::json heads = {{"num_key_value_heads", 6}, {"q_lora_rank", nullptr},
                                {"kv_lora_rank", 9},        {"qk_nope_head_dim", 6},
                                {"qk_rope_head_dim", 4},    {"v_head_dim", 7}};
  const DecoderConfig config = read_and_written(small("youtu", heads));
  EXPECT_DOUBLE_EQ(config.initializer_range, 2.0 / std::sqrt(5.0 * 24));
  EXPECT_TRUE(config.has_latent_attention());
  EXPECT_FALSE(config.layer(0).experts);
}

TEST(PublishedDense, HyperclovaMultipliesLogits) {
  const DecoderConfig config =
      read_and_written(small("hyperclovax", {{"logits_scaling", 0.125}, {"head_dim", 16}}));
  EXPECT_EQ(config.logit_multiplier, 0.125);
  EXPECT_DOUBLE_EQ(config.attention_scale, 0.25);
  EXPECT_TRUE(config.norm_after);
}

TEST(PublishedDense, GraniteWithWindowsHasTwoBasesOrNone) {
  nlohmann::json json = small("granite_swa", {{"layer_rope_theta", {0, 300.0, 9000.0, 300.0}}});
  const DecoderConfig config = read_and_written(json);
  EXPECT_TRUE(config.attention_sinks);
  EXPECT_TRUE(config.layer(0).no_rotary);
  EXPECT_TRUE(config.layer(0).attention.is_full());
  EXPECT_EQ(config.layer(3).attention.window, 128);
  EXPECT_EQ(config.rotary_of(1).base, 300);
  EXPECT_EQ(config.rotary_of(2).base, 9000);
  EXPECT_EQ(config.rotary_of(3).base, 300);
  json["layer_types"] = {"full_attention", "full_attention", "full_attention", "full_attention"};
  EXPECT_EQ(read_and_written(json).rotary_of(2).base, 9000);
  for (const nlohmann::json& thetas :
       {nlohmann::json{1.0, 2.0, 3.0, 3.0}, nlohmann::json{1.0}, nlohmann::json{-1.0, 1, 1, 1}}) {
    json["layer_rope_theta"] = thetas;
    expect_refused(json, "layer_rope_theta");
  }
}

}  // namespace
}  // namespace packtrain::published_dense_test
