// Sorts token rows by expert, as grouped GEMMs need them. Each of T rows has k experts: A = T k
// assignments in row-major order. They are sorted by expert, and by row within an expert. No row is
// dropped, and no group is padded. The sort is deterministic and uses no atomics. Does not wait for
// the device.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace packtrain {

struct TokenPermutation {
  at::Tensor permuted_rows;  // int32 [T, k]: row of each assignment in the sorted order
  at::Tensor ends;           // int32 [E]: the assignments of expert e end before ends[e]
};

// experts: int32 [T, k], distinct in a row, below num_experts < 2^15.
TokenPermutation sort_tokens_by_expert(const at::Tensor& experts, std::int64_t num_experts);

// int32 [A]: the expert of each sorted assignment.
at::Tensor experts_of(const TokenPermutation& order);

// Adds the number of rows of each expert to counts (float32 [E], contiguous). Tensor row_counts is
// float32 [T], 1 or 0 for rows that do not count; undefined means that all count. Exact below 2^24.
void count_tokens_per_expert(const at::Tensor& experts, const at::Tensor& row_counts,
                             const at::Tensor& counts);

// On CUDA tensors. The functions above call these; no_cuda.cpp has them in a build without CUDA.
TokenPermutation sort_tokens_by_expert_cuda(const at::Tensor& experts, std::int64_t num_experts);
void count_tokens_per_expert_cuda(const at::Tensor& experts, const at::Tensor& row_counts,
                                  const at::Tensor& counts);

}  // namespace packtrain
