#include "models/ops/mamba2/ssd_bytes.h"

#include <algorithm>

#include "models/ops/delta_rule/delta_rule.h"
#include "models/ops/mamba2/tensor_cores/ssd_tensor_cores.h"

namespace packtrain {
namespace {

constexpr std::int64_t kSsdFloatBytes = 4;
constexpr std::int64_t kSsdBfloat16Bytes = 2;
constexpr std::int64_t kSsdMostParts = 4;  // of all groups; each writes float32 gradients
// Shared memory that the kernels need for heads of up to 64 columns, and for wider ones.
constexpr std::int64_t kNarrowHeadBytes = 82 << 10;
constexpr std::int64_t kWideHeadBytes = 114 << 10;

std::int64_t state_elements(const SsdSizes& sizes) {
  return sizes.num_rows / kDeltaRuleChunk * sizes.num_heads * sizes.head_dim * sizes.state_dim;
}

// Running sums, partial sums of D, and states with their gradients between chunks.
std::int64_t general_ssd_bytes(const SsdSizes& sizes) {
  return kSsdFloatBytes * (2 * sizes.num_rows * sizes.num_heads + 2 * state_elements(sizes));
}

std::int64_t tensor_core_ssd_bytes(const SsdSizes& sizes) {
  constexpr std::int64_t kRowValues = 4;  // sums, decays, steps, inputs
  constexpr std::int64_t kSkipPartials = 1;
  const std::int64_t cells = sizes.num_rows * sizes.num_heads;
  const std::int64_t slots = sizes.num_rows / kDeltaRuleChunk;
  const std::int64_t floats =
      (kRowValues + kSkipPartials + ssd_row_parts(sizes.state_dim)) * cells +
      2 * sizes.num_rows * sizes.num_groups * kDeltaRuleChunk +
      slots * sizes.num_heads * ssd_state_parts(sizes.state_dim, sizes.head_dim) +
      4 * std::max<std::int64_t>(kSsdMostParts, sizes.num_groups) * sizes.num_rows *
          sizes.state_dim;
  return kSsdFloatBytes * floats + 2 * kSsdBfloat16Bytes * state_elements(sizes);
}

}  // namespace

bool ssd_on_tensor_cores(const SsdSizes& sizes, DataType dtype, std::int64_t shared_bytes) {
  return dtype == DataType::kBFloat16 && sizes.head_dim % 8 == 0 && sizes.state_dim % 8 == 0 &&
         sizes.head_dim <= kSsdMaxColumns && sizes.state_dim <= kSsdMaxState &&
         shared_bytes >= (sizes.head_dim <= kSsdStateTile ? kNarrowHeadBytes : kWideHeadBytes);
}

int ssd_head_parts(const SsdSizes& sizes, std::int64_t num_chunks) {
  constexpr std::int64_t kConcurrentBlocks = 264;  // 2 for each multiprocessor of a Hopper GPU
  const std::int64_t share = sizes.num_heads / sizes.num_groups;
  const std::int64_t blocks =
      num_chunks * sizes.num_groups * ssd_tiles_of(sizes.state_dim, kSsdGroupTile);
  // Heads that the GPU has one after another.
  const auto time = [&](std::int64_t parts) {
    return (blocks * parts + kConcurrentBlocks - 1) / kConcurrentBlocks *
           ((share + parts - 1) / parts);
  };
  int best = 1;
  for (int parts = 2; parts <= std::min(kSsdMostParts / sizes.num_groups, share); ++parts) {
    if (time(parts) < time(best)) best = parts;
  }
  return best;
}

std::int64_t ssd_workspace_bytes(const SsdSizes& sizes, DataType dtype, std::int64_t shared_bytes) {
  return ssd_on_tensor_cores(sizes, dtype, shared_bytes) ? tensor_core_ssd_bytes(sizes)
                                                         : general_ssd_bytes(sizes);
}

}  // namespace packtrain
