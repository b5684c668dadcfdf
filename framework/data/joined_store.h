// Joins several token stores to one, for `data.train` with a list.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "framework/data/token_store.h"

namespace packtrain {

struct StorePart {
  std::unique_ptr<TokenStore> store;
  double repeats = 1.0;
  double loss_weight = 1.0;
};

// Concatenates the stores, each `repeats` times. Each repeat of an example is an example of the
// joined store, so that each is trained exactly once an epoch. A store of n examples has
// round(repeats * n): whole repeats, then choose_examples() (mixture.h) for the rest. Of a store
// with groups, n and the rest are groups. A store that
// is joined itself is used once. No data is
// copied. Sources with the same name become one. The fingerprint covers the parts' fingerprints,
// order and counts, but not their weights. A single part that is used once is returned unchanged.
// Throws Error(kConfig) when a part's repeats select none of its examples. Throws Error(kData) when
// vocabulary sizes, known tokenizers, kinds of groups or columns of tokens differ, and for more
// than 2^32 - 1 examples or 32767 sources.
std::unique_ptr<TokenStore> join_stores(std::vector<StorePart> parts);

}  // namespace packtrain
