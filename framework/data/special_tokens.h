// The special tokens of the tokenizer that a store was made with.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_set>

namespace packtrain {

// Their ids; none where the store has no tokenizer, or its tokenizer.json another form.
// Throws Error(kData) when the file is there and cannot be read.
std::unordered_set<std::int32_t> special_tokens(const std::string& store_folder);

}  // namespace packtrain
