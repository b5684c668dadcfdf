// Checks whether stores can be joined: the same tokens, and a valid number of examples.
#pragma once

#include <cstdint>
#include <span>

#include "framework/data/joined_store.h"

namespace packtrain {

// Compares vocabularies, tokenizers, kinds of groups and columns of tokens of all parts. A store
// without a tokenizer (pretokenized) matches any. Returns the information of the first store with a
// tokenizer, else of the first store. Throws Error(kData) when one of these differs.
const StoreInfo& check_same_tokens(std::span<const StorePart> parts);

// Number of the store's examples, or of its groups.
std::int64_t num_units_of(const TokenStore& store);

// Number of its examples, or groups, in an epoch: repeats * their number, rounded.
std::int64_t num_used(const StorePart& part);

// Throws Error(kData) when an epoch has more than 2^32 - 1 examples, Error(kConfig) when a part has
// none.
void check_counts(std::span<const StorePart> parts);

}  // namespace packtrain
