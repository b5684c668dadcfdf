// Loop over the segments of a batch, from the host's copy of their boundaries.
#pragma once

#include <cstdint>
#include <functional>

#include "framework/data/attention_segment.h"
#include "models/block/batch.h"

namespace packtrain {

// Calls body(index, segment) for each segment that has rows. `parallel` distributes segments over
// cores, because most are too short to use all cores one by one.
void for_each_segment(const DeviceBatch& batch, bool parallel,
                      const std::function<void(std::int64_t, const AttentionSegment&)>& body);

}  // namespace packtrain
