// Frozen weights that are stored as e4m3 with one scale each (models/block/fp8_bytes.h). The scale
// is the power of two of fp8_arithmetic.h. It is found once, when the weight is encoded.
//
// 8-bit products read the codes where they are (Parameter::fp8_codes). The backward transposes them
// for each use: all transposed copies would double the memory of the weights. Other products
// decode. Bytes an element: 1 read, and 2 (bfloat16) or 4 written.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/block/block.h"

namespace packtrain {

// `values`: contiguous float32 or bfloat16, with all elements.
void fp8_decode(const EncodedParameter& parameter, const at::Tensor& values);

// The scale of values whose largest magnitude is `amax`: float32 [2] on the CPU.
at::Tensor fp8_scale_of(float amax);
// The codes (uint8 [n], n a multiple of 16) of `values` [n], float32 or bfloat16 on the same
// device.
at::Tensor fp8_codes_of(const at::Tensor& values, const at::Tensor& scale);
// The float32 values of codes, uint8 on the CPU.
at::Tensor fp8_decode_codes(const at::Tensor& codes, const at::Tensor& scale);

// On CUDA tensors. fp8_decode() calls it; no_cuda_fp8.cpp has it in a build without CUDA.
void fp8_decode_cuda(const at::Tensor& codes, const at::Tensor& scale, const at::Tensor& values);

}  // namespace packtrain
