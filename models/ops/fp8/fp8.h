// 8-bit floats with one scale for each tensor ("current scaling": of the tensor's own values):
//    amax = largest |x|,  scale = a power of two (fp8_arithmetic.h),  code = round(x * scale)
// The code is rounded to nearest even, and stands for code / scale. One pass reads x for amax.
// Another one casts it and writes the copies that products read. A GPU never waits: the scale stays
// on it. Deterministic, and equal bits on CPU and GPU. Bytes an element of bfloat16: 2 read for
// amax, 2 read and 1 written for each copy in the cast.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "models/ops/fp8/fp8_arithmetic.h"

namespace packtrain {

// float32 [2] on the device: 1 / scale and amax. Of matrices [E, M, K] these are the first two of
// each row of [E, 4], which products read at multiples of 16 bytes.
at::Tensor make_fp8_scale(const at::Tensor& x);

// For a kernel that writes a tensor like x and finds its amax: zeros, int32 [n] on the device.
// Undefined on the CPU, where casts find it.
at::Tensor make_fp8_amax(const at::Tensor& x);

struct Fp8Cast {
  Fp8Format format = Fp8Format::kE4M3;
  bool rows = false;     // makes Fp8Copies::rows
  bool columns = false;  // makes Fp8Copies::columns
  // `scale` is there already, from another cast of these values to this format. Not written then.
  bool has_known_scale = false;
  // make_fp8_amax() of x, that the kernel which wrote x has filled. Undefined: the cast finds it.
  at::Tensor amax = {};
};

// Those that the cast does not make are undefined. Copies of matrices [E, M, K] begin with E too.
struct Fp8Copies {
  at::Tensor rows;     // [M, K]
  at::Tensor columns;  // [K, fp8_padded(M)], zero after M
};

// Casts x [M, K], float32 or bfloat16, and writes `scale`, contiguous float32 [2]. K is a multiple
// of 16. Rows that are not contiguous, or begin within 16 bytes, are copied. Casts matrices [E, M,
// K] with a scale each; `cast.amax` is then undefined. Throws Error(kInternal), which names shape
// and dtype, if x is another one.
Fp8Copies fp8_cast(const at::Tensor& x, const at::Tensor& scale, const Fp8Cast& cast);

// The same into memory of the caller: contiguous tensors of one byte an element. Ignores
// Fp8Cast::rows and columns, and writes the copies that are defined. With a known scale it does not
// write `scale`.
void fp8_cast_into(const at::Tensor& x, const at::Tensor& scale, const Fp8Cast& cast,
                   const Fp8Copies& copies);

// Tensor cores read rows of whole 16 bytes.
constexpr std::int64_t kFp8Alignment = 16;
constexpr std::int64_t fp8_padded(std::int64_t num_rows) {
  return (num_rows + kFp8Alignment - 1) / kFp8Alignment * kFp8Alignment;
}

at::ScalarType fp8_scalar_type(Fp8Format format);

// Throws Error(kDevice) when the current CUDA device cannot multiply 8-bit floats: wanted is
// compute capability 8.9 or newer.
void check_fp8_device(at::Device device);
// False for such a device, and for a CPU, which rounds to 8-bit floats but multiplies in float32.
bool has_fp8_products(at::Device device);

// The memory of make_fp8_amax() for a kernel; null if `amax` is undefined.
inline std::uint32_t* fp8_amax_slots(const at::Tensor& amax) {
  return amax.defined() ? reinterpret_cast<std::uint32_t*>(amax.data_ptr<std::int32_t>()) : nullptr;
}

// On CUDA tensors. The functions above call these; no_cuda_fp8.cpp has them in a build without
// CUDA. `copies` is allocated.
void fp8_cast_cuda(const at::Tensor& x, const at::Tensor& scale, const Fp8Cast& cast,
                   const Fp8Copies& copies);
at::Tensor make_fp8_amax_cuda(const at::Tensor& x);
void check_fp8_device_cuda(at::Device device);
bool has_fp8_products_cuda(at::Device device);

}  // namespace packtrain
