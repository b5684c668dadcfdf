// Weights in NF4 with double quantisation (QLoRA, arXiv 2305.14314), bit-equal to bitsandbytes
// 0.50.2 on the CPU. models/block/nf4_groups.h has the layout. For each block of 64 elements
//    code = index of the quantile nearest to x / absmax
// For each tensor offset = mean(absmax). For each 256 blocks of it
//    absmax code = index in a map of 256 values of (absmax - offset) / nested absmax
// Decoded: quantile[code] * (map[absmax code] * nested absmax + offset), in float32, then rounded.
// Bytes an element: decoding reads 0.52 and writes 2 (bfloat16) or 4.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "models/block/block.h"

namespace packtrain {

// `values`: contiguous float32 or bfloat16, with the elements of all ranges.
void nf4_decode(const EncodedParameter& parameter, const at::Tensor& values);

// Values [begin, begin + numel) of a tensor: contiguous float32 or bfloat16 [numel].
using ReadValues = std::function<at::Tensor(std::int64_t begin, std::int64_t numel)>;

// Quantises groups [first_group, first_group + n) of a tensor of `tensor_numel` elements, which are
// whole blocks, to `groups`, uint8 [n * kNf4GroupBytes], where read() returns values too. Reads all
// elements once for the offset, so that a rank with a part of the tensor computes the same bytes.
// Reads and keeps at most 2^26 elements at a time.
void nf4_quantize_tensor(std::int64_t tensor_numel, std::int64_t first_group,
                         const at::Tensor& groups, const ReadValues& read);

// The absmax of each block of `values` [n], whole blocks: float32 [n / 64].
at::Tensor nf4_absmax(const at::Tensor& values);
// The mean of a tensor's absmaxes (CPU, float32), the same for any number of threads.
float nf4_offset(const at::Tensor& absmax);
// Quantises `values` [n], the elements of all of `groups`. The last group may be partly unused.
void nf4_quantize(const at::Tensor& values, float offset, const at::Tensor& groups);

// On CUDA tensors. The functions above call these; no_cuda.cpp has them in a build without CUDA.
void nf4_decode_cuda(const EncodedParameter& parameter, const at::Tensor& values);
at::Tensor nf4_absmax_cuda(const at::Tensor& values);
void nf4_quantize_cuda(const at::Tensor& values, float offset, const at::Tensor& groups);

}  // namespace packtrain
