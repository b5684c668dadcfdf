// The examples a run trains on.
#pragma once

#include <memory>

#include "framework/config/config.h"
#include "framework/data/token_store.h"

namespace packtrain {

// data.train, several stores joined (framework/data/joined_store.h). Throws Error(kData), and
// Error(kConfig) when a store is named twice.
std::unique_ptr<TokenStore> open_training_store(const DataSection& data);

}  // namespace packtrain
