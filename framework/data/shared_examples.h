// Which examples of one store are also in another, by their token ids.
#pragma once

#include <cstdint>

#include "framework/data/token_store.h"

namespace packtrain {

// Examples of `validation` whose ids are those of an example of `train`, whatever the masks. Each
// is hashed once (xxh3-128); of `train` only those of a length that `validation` has, and no
// repeats. 16 bytes an example of `validation`.
std::int64_t count_shared_examples(const TokenStore& train, const TokenStore& validation);

}  // namespace packtrain
