// Several token stores as one: what `data.train` with a list means.
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

// One store after another, each `repeats` times: every repeat of an example is an example of the
// joined store, so that "exactly once an epoch" holds for each. Of a store of n examples these are
// round(repeats * n): all of them as often as they fit, then choose_examples() (mixture.h) for the
// rest. Nothing is copied. Sources with the same name become one. The fingerprint covers the
// parts', their order and counts, not their weights. A single part that is used once is returned as
// it is. Throws Error(kConfig) when a part's repeats leave none of its examples, Error(kData) when
// vocabulary sizes or known tokenizers differ, or when there are more than 2^32 - 1 examples or
// 32767 sources.
std::unique_ptr<TokenStore> join_stores(std::vector<StorePart> parts);

}  // namespace packtrain
