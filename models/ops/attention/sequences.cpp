#include "models/ops/attention/sequences.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

namespace packtrain {

void for_each_sequence(const DeviceBatch& batch, bool parallel,
                       const std::function<void(std::int64_t, std::int64_t, std::int64_t)>& body) {
  const auto& offsets = batch.cu_seqlens_host;
  const auto range = [&](std::int64_t first, std::int64_t last) {
    const at::NoGradGuard no_grad;  // gradient mode is per thread
    for (std::int64_t i = first; i < last; ++i) {
      if (offsets[i + 1] > offsets[i]) {
        body(i, offsets[i], offsets[i + 1] - offsets[i]);
      }
    }
  };
  const auto num_sequences = static_cast<std::int64_t>(offsets.size()) - 1;
  if (parallel) {
    at::parallel_for(0, num_sequences, /*grain_size=*/1, range);
  } else {
    range(0, num_sequences);
  }
}

}  // namespace packtrain
