// The tokens of a Hugging Face tokenizer.json.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace packtrain {

// The text of `folder`/tokenizer.json; nothing where there is none.
std::optional<std::string> read_tokenizer(const std::string& folder);

// Token by id, added ones too; ids without a token are "". Empty where `text` is no tokenizer.json
// that we can read.
std::vector<std::string> tokens_by_id(const std::string& text);

}  // namespace packtrain
