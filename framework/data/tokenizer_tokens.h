// The tokens of a Hugging Face tokenizer.json.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace packtrain {

// The text of `folder`/tokenizer.json, or nothing when it does not exist.
std::optional<std::string> read_tokenizer(const std::string& folder);

// Tokens by id, with added tokens. Ids without a token are "". Empty when `text` is not a
// tokenizer.json that we can read.
std::vector<std::string> tokens_by_id(const std::string& text);

}  // namespace packtrain
