// Multimodal models: their config.json has the text model's configuration in 'text_config'.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace packtrain {

// Key of the text model's own configuration.
inline constexpr const char* kTextPart = "text_config";

bool has_text_part(const nlohmann::json& config);
bool has_text_part(const std::string& config_json);  // false for invalid JSON

// Returns the text model's complete config.json. Sizes that it leaves to the class in transformers
// are filled in. The outer config's tie_word_embeddings and ids of special tokens have priority, as
// in transformers. A type that computes what a family computes (qwen3_vl_text: qwen3) becomes that
// family. Returns `config` itself when it has no text part. Throws Error(kConfig) when the
// text model's type is not supported. Also throws when the outer model computes text in another way
// than the text model alone.
nlohmann::json text_part(const nlohmann::json& config);

}  // namespace packtrain
