#include "models/families/text_part.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "framework/core/error.h"
#include "models/families/family.h"

namespace packtrain {
namespace {

using nlohmann::json;

// Sizes that transformers' class of the type uses when a config does not set them. The config.json
// of a multimodal model has only sizes that differ. 0: derived from the other sizes.
struct ClassSizes {
  std::string_view model_type;
  std::int64_t vocab_size;
  std::int64_t hidden_size;
  std::int64_t intermediate_size;
  std::int64_t num_hidden_layers;
  std::int64_t num_attention_heads;
  std::int64_t num_key_value_heads;
  std::int64_t max_position_embeddings;
};

constexpr std::array kClassSizes = {
    ClassSizes{"cohere2", 256000, 8192, 22528, 40, 64, 0, 8192},
    ClassSizes{"gemma", 256000, 3072, 24576, 28, 16, 16, 8192},
    ClassSizes{"gemma2", 256000, 2304, 9216, 26, 8, 4, 8192},
    ClassSizes{"gemma3_text", 262208, 2304, 9216, 26, 8, 4, 131072},
    ClassSizes{"gemma3n_text", 262400, 2048, 16384, 35, 8, 2, 32768},
    ClassSizes{"gemma4_text", 262144, 2304, 9216, 30, 8, 4, 131072},
    ClassSizes{"granite", 32000, 4096, 11008, 32, 32, 0, 2048},
    ClassSizes{"llama", 32000, 4096, 11008, 32, 32, 0, 2048},
    ClassSizes{"llama4_text", 202048, 5120, 8192, 48, 40, 8, 131072},
    ClassSizes{"ministral3", 131072, 4096, 14336, 34, 32, 8, 262144},
    ClassSizes{"mistral", 32000, 4096, 14336, 32, 32, 8, 131072},
    ClassSizes{"phi3", 32064, 3072, 8192, 32, 32, 0, 4096},
    ClassSizes{"qwen2", 151936, 4096, 22016, 32, 32, 32, 32768},
    ClassSizes{"qwen2_5_vl_text", 152064, 8192, 29568, 80, 64, 8, 32768},
    ClassSizes{"qwen3", 151936, 4096, 22016, 32, 32, 32, 32768},
    ClassSizes{"qwen3_5_moe_text", 248320, 2048, 0, 40, 16, 2, 32768},
    ClassSizes{"qwen3_5_text", 248320, 4096, 12288, 32, 16, 4, 32768},
    ClassSizes{"qwen3_vl_text", 151936, 4096, 22016, 32, 32, 32, 128000},
};

// Text models that compute what a family computes. The positions of their pictures have three
// parts, which are equal for text.
struct SameAsFamily {
  std::string_view model_type;
  std::string_view family;
  // Values that transformers' class of the type uses when a config does not set them.
  double rope_theta;
  double rms_norm_eps;
  std::int64_t max_window_layers;
};

constexpr std::array kSameAsFamily = {
    SameAsFamily{"qwen2_5_vl_text", "qwen2", 1e6, 1e-5, 80},
    SameAsFamily{"qwen3_vl_text", "qwen3", 5e5, 1e-6, 28},
};

const SameAsFamily* same_as_family(std::string_view model_type) {
  const auto* found = std::ranges::find(kSameAsFamily, model_type, &SameAsFamily::model_type);
  return found == kSameAsFamily.end() ? nullptr : found;
}

bool is_set(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && !found->is_null();
}

// Leaves out how the parts of a position share the pairs of a head.
void merge_position_parts(json& rope) {
  rope.erase("mrope_section");
  rope.erase("mrope_interleaved");
  for (const char* key : {"type", "rope_type"}) {
    if (is_set(rope, key) && rope[key] == "mrope") rope[key] = "default";
  }
}

void write_as_family(json& text) {
  const SameAsFamily* same = same_as_family(text["model_type"].get<std::string>());
  if (same == nullptr) return;
  text["model_type"] = same->family;
  bool has_base = is_set(text, "rope_theta");
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    if (!text.contains(key) || !text[key].is_object()) continue;
    merge_position_parts(text[key]);
    has_base = has_base || is_set(text[key], "rope_theta");
  }
  if (!has_base) text["rope_theta"] = same->rope_theta;
  if (!is_set(text, "rms_norm_eps")) text["rms_norm_eps"] = same->rms_norm_eps;
  if (!is_set(text, "max_window_layers")) text["max_window_layers"] = same->max_window_layers;
}

// Their attention of text has other masks than the text model alone.
constexpr std::array<std::string_view, 2> kNotCausal = {"paligemma", "colpali"};

void fill_sizes(json& text) {
  const auto type = text["model_type"].get<std::string>();
  const auto sizes = std::ranges::find(kClassSizes, type, &ClassSizes::model_type);
  if (sizes == kClassSizes.end()) return;
  const auto fill = [&](const char* key, std::int64_t value) {
    if (value > 0 && (!text.contains(key) || text[key].is_null())) text[key] = value;
  };
  fill("vocab_size", sizes->vocab_size);
  fill("hidden_size", sizes->hidden_size);
  fill("intermediate_size", sizes->intermediate_size);
  fill("num_hidden_layers", sizes->num_hidden_layers);
  fill("num_attention_heads", sizes->num_attention_heads);
  fill("num_key_value_heads", sizes->num_key_value_heads);
  fill("max_position_embeddings", sizes->max_position_embeddings);
}

void check_outer_type(const json& config) {
  const auto type = config.find("model_type");
  if (type == config.end() || !type->is_string()) return;
  if (std::ranges::find(kNotCausal, type->get<std::string>()) == kNotCausal.end()) return;
  throw Error(ErrorCategory::kConfig,
              "model config: model_type is " + type->dump() +
                  ", whose tokens of text see those behind them, which packtrain does not compute",
              "models/README.md lists the types of text models that are trained.");
}

void check_text_type(const json& config) {
  const json& text = config.at(kTextPart);
  const auto type = text.find("model_type");
  const bool is_named = type != text.end() && type->is_string();
  const auto is_family = [&](const Family& family) {
    return type->get<std::string>() == family.model_type;
  };
  const bool is_trained = is_named && (std::ranges::any_of(families(), is_family) ||
                                       same_as_family(type->get<std::string>()) != nullptr);
  if (is_trained) return;
  throw Error(ErrorCategory::kConfig,
              "model config: model_type is " + config.value("model_type", json()).dump() +
                  ", a model of more than text: its 'text_config' is of type " +
                  (is_named ? type->dump() : "unknown") +
                  ", which is not one that packtrain trains",
              "models/README.md lists the types of text models that are trained.");
}

}  // namespace

bool has_text_part(const json& config) {
  const auto text = config.is_object() ? config.find(kTextPart) : config.end();
  return config.is_object() && text != config.end() && text->is_object();
}

bool has_text_part(const std::string& config_json) {
  return has_text_part(json::parse(config_json, nullptr, /*allow_exceptions=*/false));
}

json text_part(const json& config) {
  if (!has_text_part(config)) return config;
  check_text_type(config);
  check_outer_type(config);
  json text = config.at(kTextPart);
  fill_sizes(text);
  write_as_family(text);
  for (const char* key : {"tie_word_embeddings", "bos_token_id", "eos_token_id", "pad_token_id"}) {
    const auto outer = config.find(key);
    if (outer != config.end() && !outer->is_null()) text[key] = *outer;
  }
  return text;
}

}  // namespace packtrain
