// The examples a run trains on.
#pragma once

#include <memory>

#include "framework/config/config.h"
#include "framework/data/token_store.h"

namespace packtrain {

// data.train. Throws Error(kData).
std::unique_ptr<TokenStore> open_training_store(const DataSection& data);

}  // namespace packtrain
