// Checks of plan options that need no example.
#pragma once

#include "framework/data/token_store.h"
#include "samplers/options.h"

namespace packtrain {

// The options with what the strategy decides. Throws Error(kConfig) when one is out of range.
PlanOptions checked_options(PlanOptions options);

// The same for the plan of a store. Throws Error(kConfig) also for options that would cut the
// examples of groups or join them.
PlanOptions checked_options(const TokenStore& store, PlanOptions options);

}  // namespace packtrain
