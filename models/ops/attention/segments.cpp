#include "models/ops/attention/segments.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include "models/ops/attention/expanded_keys.h"

namespace packtrain {
namespace {

// Calls body(index) for each index below `count`.
template <typename Body>
void for_each_index(std::int64_t count, bool parallel, const Body& body) {
  const auto range = [&](std::int64_t first, std::int64_t last) {
    const at::NoGradGuard no_grad;  // gradient mode is per thread
    for (std::int64_t i = first; i < last; ++i) body(i);
  };
  if (parallel) {
    at::parallel_for(0, count, /*grain_size=*/1, range);
  } else {
    range(0, count);
  }
}

}  // namespace

void for_each_segment(const DeviceBatch& batch, bool parallel,
                      const std::function<void(std::int64_t, const AttentionSegment&)>& body) {
  const AttentionSegments segments = batch.segments();
  for_each_index(segments.size(), parallel, [&](std::int64_t i) {
    const AttentionSegment segment = segments[i];
    if (segment.rows.size() > 0) body(i, segment);
  });
}

void for_each_sequence(DeviceBatch& batch, bool parallel,
                       const std::function<void(std::int64_t, const KernelSequence&)>& body) {
  if (batch.segments().are_sequences()) {
    return for_each_segment(batch, parallel, [&](auto index, const AttentionSegment& segment) {
      body(index, {segment.rows, segment.rows});
    });
  }
  const ExpandedKeys& keys = expanded_keys(batch);
  for_each_index(keys.num_sequences(), parallel, [&](std::int64_t index) {
    const auto i = static_cast<std::size_t>(index);
    body(index, {{keys.first_queries[i], keys.first_queries[i + 1]},
                 {keys.first_keys[i], keys.first_keys[i + 1]}});
  });
}

std::int64_t num_sequences(DeviceBatch& batch) {
  return batch.segments().are_sequences() ? batch.segments().size()
                                          : expanded_keys(batch).num_sequences();
}

}  // namespace packtrain
