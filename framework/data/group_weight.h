// How much a group counts in a loss of groups.
#pragma once

#include <cstdint>

#include "framework/data/token_store.h"

namespace packtrain {

// The loss weight of a group of a store with groups: the weight of its store, times the mean mask
// weight of the labels of its first example (of a pair the chosen one). So the column `weight` of a
// record weighs its group. Reads a mask only where the store has weights of tokens.
double group_weight(const TokenStore& store, std::int64_t group);

}  // namespace packtrain
