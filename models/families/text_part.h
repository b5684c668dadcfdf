// Models of more than text: their config.json has that of the text model in 'text_config'.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace packtrain {

// The key of the text model's own config.json.
inline constexpr const char* kTextPart = "text_config";

bool has_text_part(const nlohmann::json& config);
bool has_text_part(const std::string& config_json);  // false for what is no JSON

// The text model's config.json, whole: sizes that it leaves to transformers' class are written out,
// tie_word_embeddings and the ids of special tokens are those of the outer config where that has
// them, as transformers reads them. `config` itself when it has no text part. Throws Error(kConfig)
// when the text model's type is not trained, or the outer model does not compute text as the text
// model alone does.
nlohmann::json text_part(const nlohmann::json& config);

}  // namespace packtrain
