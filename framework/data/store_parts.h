// Checks whether stores can be joined: the same tokens, and a valid number of examples.
#pragma once

#include <cstdint>
#include <span>

#include "framework/data/joined_store.h"

namespace packtrain {

// Compares vocabularies and tokenizers of all parts. A store without a tokenizer (pretokenized)
// matches any. Returns the information of the first store with a tokenizer, else of the first
// store. Throws Error(kData) when vocabularies or tokenizers differ, and for a store with groups.
const StoreInfo& check_same_tokens(std::span<const StorePart> parts);

// Number of its examples in an epoch: repeats * num_examples, rounded.
std::int64_t num_used(const StorePart& part);

// Throws Error(kData) when an epoch has more than 2^32 - 1 examples, Error(kConfig) when a part has
// none.
void check_counts(std::span<const StorePart> parts);

}  // namespace packtrain
