// Plain examples next to groups of turns.
#pragma once

#include <memory>
#include <vector>

#include "framework/data/token_store.h"

namespace packtrain {

// Where one of the stores has groups of turns, every plain one becomes a view in which each example
// is a group of one turn. Stores of a run then have units of one kind. Its fingerprint and digests
// stay those of the store.
void match_turns(std::vector<std::unique_ptr<TokenStore>*> stores);

}  // namespace packtrain
