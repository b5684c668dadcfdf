// Which token begins, ends and pads a text: what generation needs and training does not.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace packtrain {

// {bos_token_id, eos_token_id, pad_token_id}, those that are known: as in the model's own
// config.json
// (`model_config`, its text, may be empty), else by the tokens that `tokenizer_folder` (may be
// empty) names in tokenizer_config.json and numbers in tokenizer.json. Throws Error(kCheckpoint)
// for a tokenizer file that is no JSON.
nlohmann::json special_token_ids(const std::string& model_config,
                                 const std::string& tokenizer_folder);

}  // namespace packtrain
