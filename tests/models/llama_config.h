// Llama's config.json as files have it, and how others are refused.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "framework/core/error.h"
#include "models/families/family.h"

namespace packtrain::test {

inline nlohmann::json old_llama() {
  return nlohmann::json::parse(R"({
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16",
    "vocab_size": 128256, "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64, "hidden_act": "silu",
    "max_position_embeddings": 131072, "rms_norm_eps": 1e-05, "rope_theta": 500000.0,
    "rope_scaling": {"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                     "original_max_position_embeddings": 8192, "rope_type": "llama3"},
    "tie_word_embeddings": true, "attention_bias": false, "attention_dropout": 0.0,
    "pretraining_tp": 1, "use_cache": true, "bos_token_id": 128000, "eos_token_id": [1, 2],
    "initializer_range": 0.02, "mlp_bias": false, "transformers_version": "4.45.0",
    "_name_or_path": "somewhere"})");
}

// As transformers 5 writes it.
inline nlohmann::json new_llama() {
  nlohmann::json config = old_llama();
  config["rope_parameters"] = config["rope_scaling"];
  config["rope_parameters"]["rope_theta"] = config["rope_theta"];
  config.erase("rope_scaling");
  config.erase("rope_theta");
  return config;
}

// The config that a family reads. Fails where what it writes reads otherwise.
inline DecoderConfig read_and_written(const nlohmann::json& json) {
  const DecoderConfig config = parse_decoder_config(json.dump());
  EXPECT_EQ(parse_decoder_config(find_family(config.family).write(config).dump()), config);
  return config;
}

inline std::string message_of(const nlohmann::json& config) {
  try {
    parse_decoder_config(config.dump());
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::kConfig);
    return error.message();
  }
  return "no error";
}

inline void expect_refused(const std::string& key, const nlohmann::json& value) {
  nlohmann::json config = old_llama();
  config[key] = value;
  const std::string message = message_of(config);
  EXPECT_NE(message.find("'" + key), std::string::npos) << key << ": " << message;
}

}  // namespace packtrain::test
