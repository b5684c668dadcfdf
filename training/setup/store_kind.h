// Whether a store holds what the run's objective reads.
#pragma once

#include <string_view>

#include "framework/config/objective_section.h"
#include "framework/data/token_store.h"

namespace packtrain {

// Pairs for dpo, ipo, orpo, simpo and cpo; judged answers for kto; rollouts for policy; plain
// examples for next_token. Throws Error(kData) for another store, with its folder and kind. `key`:
// the configuration key that names the store.
void check_store_kind(const TokenStore& store, ObjectiveKind kind, std::string_view key);

}  // namespace packtrain
