// Attention by its formula, the score matrix of all tokens in the open: what backends are held to.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "models/ops/attention/attention.h"
#include "tests/models/cases.h"

namespace packtrain {

struct AttentionResult {
  at::Tensor y;      // [T, num_heads, D]
  at::Tensor query;  // gradients, [T, heads, D]
  at::Tensor key;
  at::Tensor value;
  at::Tensor sinks = {};  // [heads], undefined without
};

// A segment of a batch of numbers alone: rows, and the rows of others that they see before.
struct SegmentPart {
  std::int32_t length = 0;
  std::vector<RowRange> prefix = {};
};

// The boundaries of a batch of these segments, without tokens.
DeviceBatch segment_batch(const std::vector<SegmentPart>& parts, const at::Device& device);

// Backends that serve a case, and those of them that serve windows.
std::vector<AttentionBackend> backends_on(const OperatorCase& on);
std::vector<AttentionBackend> window_backends_on(const OperatorCase& on);

// Those for heads of 512 elements.
std::vector<AttentionBackend> wide_backends_on(const OperatorCase& on);

// In float64 on the tensors' device.
AttentionResult attention_formula(const at::Tensor& qkv, const at::Tensor& grad_output,
                                  const AttentionShape& shape,
                                  const std::vector<std::int32_t>& lengths,
                                  const at::Tensor& sinks = {});

// The same for segments, which may have prefixes.
AttentionResult attention_formula(const at::Tensor& qkv, const at::Tensor& grad_output,
                                  const AttentionShape& shape, const AttentionSegments& segments,
                                  const at::Tensor& sinks = {});

// Forward and backward of the backend in `shape`, in memory full of NaN.
AttentionResult run_attention(const OperatorCase& on, const at::Tensor& qkv,
                              const at::Tensor& grad_output, const AttentionShape& shape,
                              DeviceBatch& batch, const Parameter* sinks = nullptr);

// Compares in groups of rows, each relative to its own size. Rows late in a long sequence are
// small, and the first rows would hide an error there.
void expect_close_by_rows(const AttentionResult& actual, const AttentionResult& want,
                          double tolerance, const std::string& what);

}  // namespace packtrain
