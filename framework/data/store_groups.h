// Functions over the groups of a store.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "framework/data/token_store.h"

namespace packtrain {

// Number of leading tokens that all examples of a group share: the same ids, of which no example
// learns one. So it never reaches into the answers. At least one token of each example remains. 0
// for a group of one example. Takes time proportional to the result.
std::int64_t num_shared_tokens(const TokenStore& store, const ExampleGroup& group);

// [examples of the group] Number of leading tokens of each that the last example begins with, too,
// and of which neither learns one. The last turn of a conversation follows the most of it, so that
// its prompt has nearly all that earlier turns follow. Entry of the last example: the most of the
// others. At least one token of each example remains. Takes time proportional to the sum.
std::vector<std::int64_t> shared_with_last(const TokenStore& store, const ExampleGroup& group);

// Accepts plain stores and groups of turns. Throws Error(kData) for a store with other groups, or
// with columns of tokens. Next-token training would use them wrongly: it would learn what was
// rejected. `key`: the configuration key that names the store.
void check_is_plain(const TokenStore& store, std::string_view key);

}  // namespace packtrain
