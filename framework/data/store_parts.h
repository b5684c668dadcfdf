// Whether stores can be joined: that their ids mean the same, and how many examples they have.
#pragma once

#include <cstdint>
#include <span>

#include "framework/data/joined_store.h"

namespace packtrain {

// Of all parts; a store without a tokenizer (pretokenized) may stand beside any. Returns what the
// store says that has a tokenizer, or the first. Throws Error(kData) where vocabularies or
// tokenizers differ.
const StoreInfo& check_same_tokens(std::span<const StorePart> parts);

// Examples that an epoch has of it: repeats of its own, rounded.
std::int64_t num_used(const StorePart& part);

// Throws Error(kData) where an epoch has more than 2^32 - 1 examples, Error(kConfig) where a part
// has none.
void check_counts(std::span<const StorePart> parts);

}  // namespace packtrain
