// Counts examples of one store that are also in another, by their token ids.
#pragma once

#include <cstdint>

#include "framework/data/token_store.h"

namespace packtrain {

// Examples of `validation` with the same ids as an example of `train`; masks are ignored. Each
// example is hashed once (xxh3-128). Examples of `train` with a length that `validation` does not
// have, and repeats, are not hashed. Takes 16 bytes for each example of `validation`.
std::int64_t count_shared_examples(const TokenStore& train, const TokenStore& validation);

}  // namespace packtrain
