// Token ids that begin, end and pad a text. Generation needs them, training does not.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace packtrain {

// Returns {bos_token_id, eos_token_id, pad_token_id}, without unknown ones. They come from the
// model's own config.json (`model_config`, its text; may be empty). Otherwise the names come from
// tokenizer_config.json and the ids from tokenizer.json of `tokenizer_folder` (may be empty).
// Throws Error(kCheckpoint) for a tokenizer file that is not JSON.
nlohmann::json special_token_ids(const std::string& model_config,
                                 const std::string& tokenizer_folder);

// Returns {transformers_version} of the model's own config.json, or {}. Where a config.json lacks
// it, transformers 5.17 warns that the tokenizer has a wrong pattern.
nlohmann::json version_of_transformers(const std::string& model_config);

// Adds `end_tokens` to "eos_token_id" of `document`, which is one id, a list, or missing. The
// result is one id, or a list of several.
void add_end_tokens(nlohmann::json& document, const std::vector<std::int64_t>& end_tokens);

// The same for a multimodal model: in its own keys and in those of its text model.
void add_end_tokens_of_whole(nlohmann::json& whole, const std::vector<std::int64_t>& end_tokens);

// Completes the files of an exported `folder`: writes the end tokens to an existing
// generation_config.json, and the chat template.
void finish_tokenizer(const std::string& folder, const std::vector<std::int64_t>& end_tokens,
                      const std::string& chat_template);

}  // namespace packtrain
