// Keys of config.json: accepted, refused together, or ignored as the user asks.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "framework/core/error.h"
#include "models/families/config_changes.h"
#include "models/families/family.h"
#include "tests/models/llama_config.h"

namespace packtrain {
namespace {

using test::message_of;
using test::old_llama;

// These keys are from real files by to_dict() of transformers 4 and 5, and from training tools.
TEST(ConfigKeys, BookkeepingOfEveryConfigIsAccepted) {
  const auto bookkeeping = nlohmann::json::parse(R"({
    "torchscript": false, "use_bfloat16": false, "tf_legacy_loss": false, "pruned_heads": {},
    "add_cross_attention": false, "tie_encoder_decoder": false, "min_length": 0, "num_beams": 1,
    "num_beam_groups": 1, "diversity_penalty": 0.0, "typical_p": 1.0, "length_penalty": 1.0,
    "no_repeat_ngram_size": 0, "encoder_no_repeat_ngram_size": 0, "num_return_sequences": 1,
    "output_scores": false, "return_dict_in_generate": false, "remove_invalid_values": false,
    "finetuning_task": null, "prefix": null, "early_stopping": false, "sep_token_id": 3,
    "unk_token_id": 0, "mask_token_id": 4, "decoder_start_token_id": 5, "suppress_tokens": [1],
    "cross_attention_hidden_size": null, "task_specific_params": {"text": {"num_beams": 4}},
    "exponential_decay_length_penalty": null, "max_length": 20, "num_labels": 2,
    "gradient_checkpointing": true, "internal_version": "a-1", "trained_by": {"name": "me"}})");
  nlohmann::json config = old_llama();
  config.update(bookkeeping);
  EXPECT_EQ(parse_decoder_config(config.dump()), parse_decoder_config(old_llama().dump()));
}

TEST(ConfigKeys, AKeyThatSaysWhatIsComputedAnywayIsAccepted) {
  nlohmann::json config = old_llama();
  config.update({{"qkv_bias", false},
                 {"use_qk_norm", false},
                 {"logit_scale", nullptr},
                 {"clip_qkv", 0},
                 {"n_embd", 2048},
                 {"rotary_pct", 1.0},
                 {"use_rms_norm", true},
                 {"head_size", 64},
                 {"is_causal", true},
                 {"pretraining_tp", 2},
                 {"num_local_experts", 0},
                 {"mlp_only_layers", {}},
                 {"layer_norm_eps", 1e-5}});
  EXPECT_EQ(parse_decoder_config(config.dump()), parse_decoder_config(old_llama().dump()));
}

TEST(ConfigKeys, LayerTypesThatSayWhatIsComputedAnywayAreAccepted) {
  nlohmann::json config = old_llama();
  const auto num_layers = config["num_hidden_layers"].get<std::size_t>();
  config["layer_types"] = std::vector<std::string>(num_layers, "full_attention");
  EXPECT_EQ(parse_decoder_config(config.dump()), parse_decoder_config(old_llama().dump()));
  config["layer_types"][0] = "sliding_attention";
  EXPECT_NE(message_of(config).find("'layer_types' is [\"sliding_attention\","), std::string::npos);
  config["layer_types"] = nlohmann::json::array({"full_attention"});
  EXPECT_NE(message_of(config).find("'layer_types' is [\"full_attention\"], but only"),
            std::string::npos);
}

TEST(ConfigKeys, AKeyOfSeveralSettingsThatIsNoObjectIsNamed) {
  nlohmann::json config = old_llama();
  config["rope_scaling"] = "linear";
  EXPECT_NE(message_of(config).find("key 'rope_scaling' is \"linear\", want an object or null"),
            std::string::npos)
      << message_of(config);
}

TEST(ConfigKeys, OneErrorNamesAllKeysThatChangeTheComputation) {
  nlohmann::json config = old_llama();
  config.update({{"logit_scale", 0.5},
                 {"use_qk_norm", true},
                 {"is_causal", false},
                 {"attention_dropout", 0.1}});
  const std::string message = message_of(config);
  for (const char* part : {"'logit_scale'", "0.5", "'use_qk_norm' is true, but only false",
                           "'is_causal' is false", "'attention_dropout' is 0.1"}) {
    EXPECT_NE(message.find(part), std::string::npos) << part << ": " << message;
  }
}

TEST(ConfigKeys, TheAdviceLeavesOutWhatWasRefused) {
  nlohmann::json config = old_llama();
  config.update({{"logit_scale", 0.5}, {"mup_width", 256}});
  try {
    parse_decoder_config(config.dump());
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(error.advice().find("model.ignore_keys: [logit_scale, mup_width]"), std::string::npos)
        << error.advice();
  }
  EXPECT_EQ(parse_decoder_config(without_keys(config.dump(), {"logit_scale", "mup_width"})),
            parse_decoder_config(old_llama().dump()));
}

TEST(ConfigKeys, AKeyToIgnoreThatTheConfigLacksIsRefusedWithTheNearestOne) {
  nlohmann::json config = old_llama();
  config["logit_scale"] = 0.5;
  try {
    without_keys(config.dump(), {"logits_scale"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("'logits_scale'"), std::string::npos);
    EXPECT_NE(error.advice().find("'logit_scale'"), std::string::npos) << error.advice();
  }
}

TEST(ConfigKeys, AKeyToIgnoreThatIsGoneAlreadyIsNoError) {
  const std::string config = old_llama().dump();
  EXPECT_EQ(without_keys(config, {"logit_scale", "rope_scaling.mystery"}), config);
}

TEST(ConfigKeys, UnsupportedSettingsAreNamedTogetherWithUnknownKeys) {
  nlohmann::json config = old_llama();
  config.update({{"hidden_act", "relu2"},
                 {"rope_scaling", {{"rope_type", "mrope"}, {"mrope_section", {1, 2}}}},
                 {"layer_types", nlohmann::json::array({"other"})},
                 {"num_hidden_layers", 1},
                 {"model_type", "qwen2"},
                 {"logit_scale", 0.5}});
  const std::string message = message_of(config);
  for (const char* part : {"'hidden_act' is \"relu2\"", "'rope_scaling.rope_type' is \"mrope\"",
                           "'layer_types' has \"other\"", "'logit_scale'"}) {
    EXPECT_NE(message.find(part), std::string::npos) << part << ": " << message;
  }
  EXPECT_EQ(message.find("mrope_section"), std::string::npos) << message;
}

TEST(ConfigKeys, AMisspelledKeyIsRefusedWithTheOneThatItSeemsToMean) {
  nlohmann::json config = old_llama();
  config.erase("initializer_range");
  config["initialiser_range"] = 0.01;
  EXPECT_NE(message_of(config).find("is it meant to be 'initializer_range'?"), std::string::npos);
  config["initializer_range"] = 0.01;
  EXPECT_EQ(message_of(config), "no error");
}

TEST(ConfigKeys, QwenCodersKeysThatChangeNothingAreAccepted) {
  nlohmann::json config = old_llama();
  config.update({{"model_type", "qwen3_moe"},
                 {"num_experts", 4},
                 {"num_experts_per_tok", 2},
                 {"moe_intermediate_size", 32}});
  const DecoderConfig plain = parse_decoder_config(config.dump());
  config.update(
      {{"qkv_bias", false}, {"use_qk_norm", true}, {"shared_expert_intermediate_size", 0}});
  EXPECT_EQ(parse_decoder_config(config.dump()), plain);
  config["shared_expert_intermediate_size"] = 64;
  EXPECT_NE(message_of(config).find("'shared_expert_intermediate_size'"), std::string::npos);
}

}  // namespace
}  // namespace packtrain
