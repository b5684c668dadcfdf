// Weights of 8-bit products whose largest magnitudes are known before the product: the optimizer
// finds them as it writes the weights. Then a cast need not read a weight twice.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace packtrain {

// Products read scales that begin at multiples of 16 bytes. Elements from one scale to the next.
inline constexpr std::int64_t kFp8ScaleStride = 4;

// Writes the first two elements of each row of `scales`, contiguous float32 [n, kFp8ScaleStride].
// They are 1 / scale in e4m3 and amax of a weight, as fp8_cast() writes them. `amax` is contiguous
// int32 [n], bits of float32 without a sign. Throws Error(kInternal), which names shapes, if they
// do not fit.
void fp8_weight_scales(const at::Tensor& amax, const at::Tensor& scales);

// Writes the codes of a part of a weight in e4m3, with its known scale, float32 [2], which it does
// not write. `values` is contiguous 1-D [n], float32 or bfloat16, and n a multiple of 256. `codes`
// [n] has one byte an element.
void fp8_encode(const at::Tensor& values, const at::Tensor& scale, const at::Tensor& codes);

// Codes [M, K] to [K, M], for the product that sums over M. Both are multiples of 16. Bytes an
// element: 1 read and 1 written.
at::Tensor fp8_transpose(const at::Tensor& codes);

// On CUDA tensors. The functions above call these; no_cuda_fp8.cpp has them in a build without
// CUDA. `columns` is allocated.
void fp8_weight_scales_cuda(const at::Tensor& amax, const at::Tensor& scales);
void fp8_transpose_cuda(const at::Tensor& codes, const at::Tensor& columns);

}  // namespace packtrain
