#include "models/ops/attention/segments.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

namespace packtrain {

void for_each_segment(const DeviceBatch& batch, bool parallel,
                      const std::function<void(std::int64_t, const AttentionSegment&)>& body) {
  const AttentionSegments segments = batch.segments();
  const auto range = [&](std::int64_t first, std::int64_t last) {
    const at::NoGradGuard no_grad;  // gradient mode is per thread
    for (std::int64_t i = first; i < last; ++i) {
      const AttentionSegment segment = segments[i];
      if (segment.rows.size() > 0) body(i, segment);
    }
  };
  if (parallel) {
    at::parallel_for(0, segments.size(), /*grain_size=*/1, range);
  } else {
    range(0, segments.size());
  }
}

}  // namespace packtrain
