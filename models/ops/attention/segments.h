// Loops over the segments and sequences of a batch, from the host's copy of their boundaries.
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

// A sequence as kernels read it. Its queries are the last of its keys.
struct KernelSequence {
  RowRange queries;  // rows of the batch
  RowRange keys;     // rows of the expanded keys (expanded_keys.h); without prefixes of the batch
};

// Calls body(index, sequence) for each sequence that has rows, as for_each_segment does.
void for_each_sequence(DeviceBatch& batch, bool parallel,
                       const std::function<void(std::int64_t, const KernelSequence&)>& body);
std::int64_t num_sequences(DeviceBatch& batch);

}  // namespace packtrain
