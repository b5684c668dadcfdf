// Keys of a batch whose segments have prefixes, in the form of packed sequences. Each sequence has
// its prefix and then its own keys in consecutive rows. A row that several sequences see has a copy
// in each. Kernels for packed sequences then serve prefixes in one call, with one softmax. They
// must take the queries of a sequence as the last of its keys.
// A segment that continues the one before it is of the same sequence. So the first branch after a
// prefix needs no copy of it, and a group has as many keys as its examples have tokens.
// Elements that must move, with W = 2 num_kv_heads D and K keys of T rows:
//    expand   2 K W, in forward and in backward
//    sum      (K + T) W
// Groups of 512 + 2 x 128 tokens in 16,384 rows have 27,300 keys. With W = 2,048 this is 0.63 GB a
// layer in bfloat16.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "framework/data/attention_segment.h"
#include "models/block/batch.h"

namespace packtrain {

// Computed on the host from a batch's segments. The copy to the device waits for nothing.
struct ExpandedKeys {
  // [S + 1] First query of each sequence, among the batch's rows, and its first key, among the
  // expanded ones. Sequences without rows are left out.
  std::vector<std::int32_t> first_queries;
  std::vector<std::int32_t> first_keys;
  std::int32_t max_queries = 0;  // of a sequence
  std::int32_t max_keys = 0;
  // int32, on the batch's device. The first two are those above.
  at::Tensor cu_queries;
  at::Tensor cu_keys;
  at::Tensor rows;        // [K] the row that each key is of
  at::Tensor first_copy;  // [T + 1] where the copies of each row begin in `copies`
  at::Tensor copies;      // [K] the keys of row 0, of row 1, ..., each in ascending order

  std::int64_t num_sequences() const { return static_cast<std::int64_t>(first_keys.size()) - 1; }
  std::int64_t num_keys() const { return first_keys.back(); }
};

// The batch's, which are cached in it for the next layers.
const ExpandedKeys& expanded_keys(DeviceBatch& batch);

// heads [T, H, D], float32 or bfloat16, with any stride from row to row -> [K, H, D].
at::Tensor expand_rows(const at::Tensor& heads, const ExpandedKeys& keys);

// Writes to out [T, H, D] the sum of the copies [K, H, D] of each row. Sums are float32, in the
// order of the keys, so that runs are bit-equal. A row without copies gets 0. `copies` is
// contiguous. `out` has any stride from row to row.
void sum_copies(const at::Tensor& copies, const ExpandedKeys& keys, const at::Tensor& out);

// On CUDA tensors. The functions above call these.
at::Tensor expand_rows_cuda(const at::Tensor& heads, const ExpandedKeys& keys);
void sum_copies_cuda(const at::Tensor& copies, const ExpandedKeys& keys, const at::Tensor& out);

}  // namespace packtrain
