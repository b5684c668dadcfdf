// Attention with heads of 512 elements (Gemma 4's global layers), by kernels of our own for packed
// sequences. GPUs of 8.0, 9.0 and 10.0 have the shared memory (launch.h). Only 9.0 was run.
// Deterministic. Forward reads q once, and k and v once for each tile of 64 queries.
// Backward has two kernels, one for queries and one for keys. Each computes the scores, so that
// neither adds by atomics. These are 7 products of L x L x D a head, of which 5 are the least.
// Measured against what libtorch has for such heads: docs/performance.md.
#pragma once

#include "models/ops/attention/attention.h"

namespace packtrain {

// Shared memory of a block of threads on the current GPU. Without CUDA, where only plans ask, what
// the large kernels need (launch.h). Read once a process; its GPUs are assumed to be equal.
int wide_shared_bytes();

// For kWide and kWideSmall, with any window and scale, with prefixes and without a soft cap. saved:
// logsumexps, float32 [T, num_heads].
AttentionOutput wide_forward(AttentionBackend backend, const at::Tensor& qkv,
                             const AttentionShape& shape, DeviceBatch& batch);
HeadGradients wide_backward(AttentionBackend backend, const at::Tensor& grad_output,
                            const at::Tensor& qkv, const at::Tensor& y,
                            const std::vector<at::Tensor>& saved, const AttentionShape& shape,
                            DeviceBatch& batch);

}  // namespace packtrain
