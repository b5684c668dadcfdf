// Memory of the gated delta rule's kernels on a GPU, from sizes alone.
#pragma once

#include <cstdint>

#include "framework/core/data_type.h"

namespace packtrain {

struct DeltaRuleSizes {
  std::int64_t num_rows = 0;
  std::int64_t num_sequences = 1;
  std::int64_t num_key_heads = 0;
  std::int64_t num_heads = 0;
  std::int64_t key_dim = 0;
  std::int64_t value_dim = 0;
};

// True for sizes that the kernels on tensor cores take, where a block of threads may have
// `shared_bytes` of shared memory. Rows of queries, keys and values start at multiples of 16 bytes.
bool delta_rule_on_tensor_cores(std::int64_t key_dim, std::int64_t value_dim, DataType dtype,
                                std::int64_t shared_bytes);

// Bytes that forward or backward allocates in addition to its results, and frees at return. It is
// an upper bound: a sequence may need one chunk less than is counted. The tables of chunks are not
// in it.
std::int64_t delta_rule_workspace_bytes(const DeltaRuleSizes& sizes, DataType dtype, bool backward,
                                        std::int64_t shared_bytes);

// Shared memory of a block of threads of the current GPU, read once a process; its GPUs are assumed
// to be equal. Without a GPU it is that of Hopper, for which plans are then computed.
int delta_rule_shared_bytes();

}  // namespace packtrain
