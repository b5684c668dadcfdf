// How much a group counts in a loss of groups.
#pragma once

#include <cstdint>

#include "framework/data/token_store.h"

namespace packtrain {

// The loss weight of its store, times the mean mask weight of the labels of its first example. Of a
// pair this is the chosen answer. So the column `weight` of a record weighs its group. It reads a
// mask only where the store has weights of tokens. `store` has groups.
double group_weight(const TokenStore& store, std::int64_t group);

}  // namespace packtrain
