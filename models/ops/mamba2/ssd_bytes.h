// Memory of the state space model's kernels on a GPU, from sizes alone.
#pragma once

#include <cstdint>

#include "framework/core/data_type.h"

namespace packtrain {

struct SsdSizes {
  std::int64_t num_rows = 0;
  std::int64_t num_groups = 1;
  std::int64_t num_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t state_dim = 0;
};

// True for sizes that the kernels on tensor cores take, where a block of threads may have
// `shared_bytes` of shared memory. Rows of x, b and c start at multiples of 16 bytes.
bool ssd_on_tensor_cores(const SsdSizes& sizes, DataType dtype, std::int64_t shared_bytes);

// The parts in which blocks of threads add the gradients of b and c over the heads of a group.
int ssd_head_parts(const SsdSizes& sizes, std::int64_t num_chunks);

// Bytes that a backward allocates in addition to its results, and frees at return, at most. The
// tables of chunks are not in it.
std::int64_t ssd_workspace_bytes(const SsdSizes& sizes, DataType dtype, std::int64_t shared_bytes);

}  // namespace packtrain
