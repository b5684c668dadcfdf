// Hugging Face configs in and out.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "framework/core/error.h"
#include "models/families/family.h"
#include "tests/models/llama_config.h"

namespace packtrain {
namespace {

using test::expect_refused;
using test::message_of;
using test::new_llama;
using test::old_llama;

TEST(LlamaConfig, ReadsEveryValue) {
  const DecoderConfig config = parse_decoder_config(old_llama().dump());
  EXPECT_EQ(config.vocab_size, 128256);
  EXPECT_EQ(config.num_kv_heads, 8);
  EXPECT_EQ(config.head_dim, 64);
  EXPECT_EQ(config.norm.epsilon, 1e-5);
  EXPECT_EQ(config.rotary.base, 500000.0);
  EXPECT_EQ(config.rotary.scaling.kind, RotaryScaling::Kind::kLlama3);
  EXPECT_EQ(config.rotary.scaling.factor, 32.0);
  EXPECT_EQ(config.rotary.scaling.original_max_positions, 8192);
  EXPECT_TRUE(config.tied_embeddings);
}

TEST(LlamaConfig, OldAndNewLayoutMeanTheSame) {
  EXPECT_EQ(parse_decoder_config(old_llama().dump()), parse_decoder_config(new_llama().dump()));
}

TEST(LlamaConfig, HasTheFamilysDefaults) {
  const DecoderConfig config = parse_decoder_config(
      R"({"model_type": "llama", "vocab_size": 10, "hidden_size": 64, "intermediate_size": 96,
          "num_hidden_layers": 2, "num_attention_heads": 4})");
  EXPECT_EQ(config.num_kv_heads, 4);
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.max_positions, 2048);
  EXPECT_EQ(config.norm.epsilon, 1e-6);
  EXPECT_EQ(config.rotary.base, 10000.0);
  EXPECT_FALSE(config.tied_embeddings);
}

TEST(LlamaConfig, WhatIsWrittenReadsBackEqual) {
  for (const char* kind : {"none", "linear", "llama3"}) {
    nlohmann::json json = old_llama();
    json["rope_scaling"]["rope_type"] = kind;
    if (std::string(kind) == "none") {
      json["rope_scaling"] = nullptr;
    } else if (std::string(kind) == "linear") {
      json["rope_scaling"] = {{"type", "linear"}, {"factor", 2.0}};
    }
    const DecoderConfig config = parse_decoder_config(json.dump());
    EXPECT_EQ(parse_decoder_config(find_family("llama").write(config).dump()), config) << kind;
  }
}

TEST(LlamaConfig, RefusesWhatTheDecoderDoesNotCompute) {
  expect_refused("hidden_act", "relu2");
  expect_refused("attention_dropout", 0.1);
  expect_refused("sliding_window", 4096);
  expect_refused("rope_scaling", {{"rope_type", "mrope"}, {"factor", 4.0}});
  expect_refused("rope_scaling", {{"rope_type", "linear"}, {"factor", 4.0}, {"mystery", 1}});
}

TEST(LlamaConfig, RefusesWrongAndMissingValues) {
  expect_refused("vocab_size", "many");
  expect_refused("vocab_size", 0);
  expect_refused("hidden_size", 2048.5);
  expect_refused("num_hidden_layers", nullptr);
  expect_refused("num_key_value_heads", 5);
  expect_refused("head_dim", 63);
  expect_refused("rms_norm_eps", -1.0);
  expect_refused("tie_word_embeddings", 1);
  expect_refused("rope_scaling", {{"rope_type", "linear"}});
  expect_refused("rope_theta", 0);
}

TEST(Families, AnUnknownModelTypeListsTheKnownOnes) {
  nlohmann::json config = old_llama();
  config["model_type"] = "mamba";
  EXPECT_NE(message_of(config).find("llama"), std::string::npos);
  EXPECT_NE(message_of({{"vocab_size", 3}}).find("model_type"), std::string::npos);
  EXPECT_THROW(parse_decoder_config("{not json"), Error);
}

TEST(Families, AnUnknownModelTypeNamesTheNearestFamilyAndWhatDiffers) {
  nlohmann::json config = old_llama();
  config["model_type"] = "granite_next";
  EXPECT_NE(message_of(config).find("nearest is 'granite', which reads all"), std::string::npos);
  config["q_norm_rank"] = 7;
  const std::string message = message_of(config);
  EXPECT_NE(message.find("nearest is 'granite', for which key 'q_norm_rank'"), std::string::npos)
      << message;
}

TEST(Families, OfAModelOfMoreThanTextTheTextModelIsRead) {
  const nlohmann::json config = {{"model_type", "llava"}, {"text_config", old_llama()}};
  EXPECT_EQ(parse_decoder_config(config.dump()), parse_decoder_config(old_llama().dump()));
}

TEST(Families, TheOuterConfigDecidesWhetherEmbeddingsAreTied) {
  nlohmann::json config = {{"model_type", "llava"}, {"text_config", old_llama()}};
  for (const bool tied : {false, true}) {
    config["tie_word_embeddings"] = tied;
    EXPECT_EQ(parse_decoder_config(config.dump()).tied_embeddings, tied);
  }
}

TEST(Families, OfAModelOfMoreThanTextTheTypeOfTextIsNamedWhereItIsNotTrained) {
  nlohmann::json config = {{"model_type", "blip-2"}, {"text_config", old_llama()}};
  config["text_config"]["model_type"] = "opt";
  EXPECT_NE(message_of(config).find("\"opt\", which is not one that"), std::string::npos);
}

// Keys of published folders that change nothing in training.
TEST(Families, KeysOfToolsAndOfGenerationAreHarmless) {
  nlohmann::json config = old_llama();
  config.update({{"unsloth_fixed", true},
                 {"unsloth_version", "2024.9"},
                 {"is_llama_config", true},  // SmolLM2
                 {"rope_interleaved", false},
                 {"transformers.js_config", {{"dtype", "q4"}}},
                 {"max_length", 4096},
                 {"temperature", 0.6},
                 {"top_p", 0.9}});
  EXPECT_EQ(parse_decoder_config(config.dump()), parse_decoder_config(old_llama().dump()));
  expect_refused("rope_interleaved", true);
}

}  // namespace
}  // namespace packtrain
