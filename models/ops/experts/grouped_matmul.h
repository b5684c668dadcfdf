// Grouped GEMMs. Each group of rows has its own matrix:
//    grouped_matmul            out[a] = left[a] right[e]          a in group e
//    grouped_weight_gradient   dW[e] = sum over a in e of left[a]^T right[a]
// Groups are consecutive rows that end at ends[e] (int32 [E], on the device). A group may be empty.
// float32 or bfloat16, sums in float32. In bfloat16 on CUDA each is one launch that reads the ends
// on the device: libtorch's grouped GEMM, and grouped_wgrad.cu for gradients on Hopper. Widths that
// are not multiples of 8 are padded with zeros, which copies the operands. The CPU, float32 on
// CUDA, and gradients on other GPUs run one GEMM after another, which waits for the ends.
// Deterministic. 2 A K N operations each.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "models/block/block.h"

namespace packtrain {

// left [A, K]; right [E, K, N] with columns or rows of stride 1. Returns [A, N].
at::Tensor grouped_matmul(const at::Tensor& left, const at::Tensor& right, const at::Tensor& ends,
                          const GemmTiming& timing);
// Adds that product to `out` [A, N], contiguous.
void add_grouped_matmul(const at::Tensor& out, const at::Tensor& left, const at::Tensor& right,
                        const at::Tensor& ends, const GemmTiming& timing);

// left [A, N], right [A, K]. Writes the gradient of weight [E, N, K], of their dtype or float32,
// with zeros for empty groups.
void grouped_weight_gradient(const Parameter& weight, const at::Tensor& left,
                             const at::Tensor& right, const at::Tensor& ends,
                             const GemmTiming& timing);

// Calls use(group, its first row, its number of rows) for all groups. Waits for the ends.
void for_each_group(const at::Tensor& ends,
                    const std::function<void(std::int64_t, std::int64_t, std::int64_t)>& use);

// True when both functions read the ends only on the device, in bfloat16 on the current GPU.
bool grouped_gemm_sizes_stay_on_device();

}  // namespace packtrain
