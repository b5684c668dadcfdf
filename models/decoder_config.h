// What a decoder-only model is, family differences as data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace packtrain {

struct RotaryScaling {
  enum class Kind { kNone, kLlama3, kLinear };
  Kind kind = Kind::kNone;
  double factor = 1.0;
  double low_frequency_factor = 1.0;           // llama3
  double high_frequency_factor = 4.0;          // llama3
  std::int64_t original_max_positions = 8192;  // llama3

  bool operator==(const RotaryScaling&) const = default;
};

struct DecoderConfig {
  std::string family;  // HF model_type
  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t num_layers = 0;
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t max_positions = 0;
  double norm_epsilon = 1e-6;
  double rotary_base = 10000.0;
  RotaryScaling rotary_scaling;
  bool tied_embeddings = false;
  bool qkv_bias = false;
  bool attention_output_bias = false;
  bool mlp_bias = false;
  double initializer_range = 0.02;

  bool operator==(const DecoderConfig&) const = default;
};

}  // namespace packtrain
