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

// On CUDA tensors. The function above calls it; no_cuda_fp8.cpp has it in a build without CUDA.
void fp8_weight_scales_cuda(const at::Tensor& amax, const at::Tensor& scales);

}  // namespace packtrain
