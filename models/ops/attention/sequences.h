// Attention one sequence after another, boundaries from the host.
#pragma once

#include <cstdint>
#include <functional>

#include "models/batch.h"

namespace packtrain {

// Calls body(index, begin, length) for each sequence that has a token: `parallel` over the cores,
// since most sequences are too short to give all cores work.
void for_each_sequence(const DeviceBatch& batch, bool parallel,
                       const std::function<void(std::int64_t, std::int64_t, std::int64_t)>& body);

}  // namespace packtrain
