// Functions over the groups of a store.
#pragma once

#include <cstdint>
#include <string_view>

#include "framework/data/token_store.h"

namespace packtrain {

// Number of leading tokens that all examples of a group share: the same ids, of which no example
// learns one. So it never reaches into the answers. At least one token of each example remains. 0
// for a group of one example. Takes time proportional to the result.
std::int64_t num_shared_tokens(const TokenStore& store, const ExampleGroup& group);

// Throws Error(kData) for a store with groups or columns of tokens, which next-token training would
// use wrongly: it would learn what was rejected. `key`: the configuration key that names the store.
void check_is_plain(const TokenStore& store, std::string_view key);

}  // namespace packtrain
