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

// True for sizes that the kernels on tensor cores take.
bool delta_rule_on_tensor_cores(std::int64_t key_dim, std::int64_t value_dim, DataType dtype);

// Bytes that forward or backward allocates in addition to its results, and frees at return. It is
// an upper bound: a sequence may need one chunk less than is counted. The tables of chunks are not
// in it.
std::int64_t delta_rule_workspace_bytes(const DeltaRuleSizes& sizes, DataType dtype, bool backward);

}  // namespace packtrain
