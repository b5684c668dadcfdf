// Rows sorted by expert: what a mixture of experts multiplies in groups. Each of T rows has k
// experts: A = T k assignments, row-major. Sorted by expert, and within one in the order of rows.
// No row is dropped, and no group padded. Deterministic, without atomics; nothing waits for the
// device.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace packtrain {

struct TokenPermutation {
  at::Tensor permuted_rows;  // int32 [T, k] where a row's assignments went
  at::Tensor ends;           // int32 [E] the assignments of expert e end before ends[e]
};

// experts: int32 [T, k], distinct in a row, below num_experts < 2^15.
TokenPermutation sort_tokens_by_expert(const at::Tensor& experts, std::int64_t num_experts);

// int32 [A]: the expert of each sorted assignment.
at::Tensor experts_of(const TokenPermutation& order);

// Adds to counts (float32 [E], contiguous) how many rows have each expert. row_counts: float32,
// T of them, 1 or 0 for rows that do not count; undefined: all do. Exact below 2^24.
void count_tokens_per_expert(const at::Tensor& experts, const at::Tensor& row_counts,
                             const at::Tensor& counts);

}  // namespace packtrain
