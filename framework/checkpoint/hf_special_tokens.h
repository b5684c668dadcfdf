// Which token begins, ends and pads a text: what generation needs and training does not.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace packtrain {

// {bos_token_id, eos_token_id, pad_token_id}, those that are known: as in the model's own
// config.json
// (`model_config`, its text, may be empty), else by the tokens that `tokenizer_folder` (may be
// empty) names in tokenizer_config.json and numbers in tokenizer.json. Throws Error(kCheckpoint)
// for a tokenizer file that is no JSON.
nlohmann::json special_token_ids(const std::string& model_config,
                                 const std::string& tokenizer_folder);

// "eos_token_id" of `document` (one id, a list, or none) with `end_tokens` added to it: one id, or
// a list where there are several.
void add_end_tokens(nlohmann::json& document, const std::vector<std::int64_t>& end_tokens);

// The same of a model of more than text, in its own keys and in those of its text model.
void add_end_tokens_of_whole(nlohmann::json& whole, const std::vector<std::int64_t>& end_tokens);

// In the files of `folder`, as an export has them: the end tokens in generation_config.json, where
// there is one, and the chat template.
void finish_tokenizer(const std::string& folder, const std::vector<std::int64_t>& end_tokens,
                      const std::string& chat_template);

}  // namespace packtrain
