// 8-bit floats with a scale for each 128 numbers, as DeepSeek-V3 has them (arXiv 2412.19437,
// section 3.3.2). Activations and gradients have groups of 1 x 128 along the summed dimension.
// Weights have blocks of 128 x 128. Scales and codes are those of fp8.h for the numbers of the
// group alone. The last group of a row may be shorter. Codes are e4m3, for gradients too: the
// numbers of a group have fewer octaves than those of a tensor. A tile of 128 x 128 numbers has all
// of its groups, so one pass reads x, finds amax and casts. Deterministic, and equal bits on CPU
// and GPU. Bytes an element of bfloat16: 2 read, and 1 written for each copy.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/ops/fp8/fp8_arithmetic.h"
#include "models/ops/matmul/matmul.h"

namespace packtrain {

enum class Fp8ColumnScales : std::uint8_t {
  kNone,    // no columns are made
  kGroups,  // of 128 x 1 numbers
  kTensor,  // one scale for all of them
};

struct Fp8GroupCast {
  bool rows = false;  // makes Fp8Groups::rows
  Fp8ColumnScales columns = Fp8ColumnScales::kNone;
  Fp8Format tensor_format = Fp8Format::kE4M3;  // of kTensor
  // For kTensor: make_fp8_amax() of x, that the kernel which wrote x has filled. Undefined: the
  // cast finds it.
  at::Tensor amax = {};
};

// Those that the cast does not make are undefined.
struct Fp8Groups {
  Fp8Operand rows;     // codes [fp8_padded(M), K], kBlockWise1x128
  Fp8Operand columns;  // codes [K, fp8_padded(M)], kBlockWise1x128 or kTensorWise
};

// Casts x [M, K], float32 or bfloat16. K is a multiple of 16. Rows and columns are zero after M.
// Rows that are not contiguous, or begin within 16 bytes, are copied. kTensor is made with `rows`
// alone. Throws Error(kInternal), which names shape and dtype, if x is another one.
Fp8Groups fp8_group_cast(const at::Tensor& x, const Fp8GroupCast& cast);

// Casts a weight [M, K], with sizes that are multiples of 16, in blocks of 128 x 128. The codes are
// [M, K] or, transposed, [K, M]. Both have the same scales.
Fp8Operand fp8_block_cast(const at::Tensor& weight, bool transposed);

// Throws Error(kDevice) when the current CUDA device has no products with scales of blocks: wanted
// is compute capability 9.0.
void check_fp8_block_device(at::Device device);

// On CUDA tensors. The functions above call these; no_cuda_fp8.cpp has them in a build without
// CUDA. `groups` and `weight` are allocated.
void fp8_group_cast_cuda(const at::Tensor& x, const Fp8GroupCast& cast, const Fp8Groups& groups);
void fp8_block_cast_cuda(const at::Tensor& weight, bool transposed, const Fp8Operand& to);
void check_fp8_block_device_cuda(at::Device device);

}  // namespace packtrain
