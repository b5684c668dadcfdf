// Loop over sequences, with boundaries from the host.
#pragma once

#include <cstdint>
#include <functional>

#include "models/block/batch.h"

namespace packtrain {

// Calls body(index, begin, length) for each sequence that has tokens. `parallel` distributes
// sequences over cores, because most are too short to use all cores one by one.
void for_each_sequence(const DeviceBatch& batch, bool parallel,
                       const std::function<void(std::int64_t, std::int64_t, std::int64_t)>& body);

}  // namespace packtrain
