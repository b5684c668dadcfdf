// The special tokens of a store's tokenizer.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_set>

namespace packtrain {

// Returns their ids. Empty when the store has no tokenizer or its tokenizer.json has another
// format. Throws Error(kData) when the file exists and cannot be read.
std::unordered_set<std::int32_t> special_tokens(const std::string& store_folder);

}  // namespace packtrain
