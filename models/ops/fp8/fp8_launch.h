// The kernels of 8-bit floats. `stream` is a cudaStream_t. All throw Error(kDevice) when a launch
// fails.
#pragma once

#include <cstdint>

#include "framework/core/data_type.h"
#include "models/ops/fp8/fp8_arithmetic.h"

namespace packtrain {

// The largest of these is the amax of a tensor.
struct Fp8AmaxPartials {
  const std::uint32_t* bits = nullptr;  // of float32 without a sign
  int count = 0;
};

// A kernel that writes the tensor enters its amax in these, which are zero at first.
inline constexpr int kFp8AmaxSlots = 256;
inline constexpr int kMaxFp8AmaxPartials = 1024;
// The count of a matrix with `numel` elements.
int num_fp8_amax_partials(std::int64_t numel);

struct Fp8AmaxArguments {
  const void* values = nullptr;       // `numel` elements a matrix, 16-byte aligned
  std::uint32_t* partials = nullptr;  // [num_matrices, num_fp8_amax_partials(numel)]
  std::int64_t numel = 0;             // a multiple of 16, at least 16
  DataType dtype = DataType::kBFloat16;
  int num_matrices = 1;
};
void launch_fp8_amax(const Fp8AmaxArguments& arguments, void* stream);

// `num_matrices` matrices, one after another.
struct Fp8CastArguments {
  const void* values = nullptr;  // [num_rows, num_columns], 16-byte aligned
  Fp8AmaxPartials amax;
  // [2]: factor and amax, `scale_stride` from matrix to matrix; null: known already.
  float* scale = nullptr;
  std::uint8_t* rows = nullptr;     // [num_rows, num_columns], or null
  std::uint8_t* columns = nullptr;  // [num_columns, padded_rows], or null
  std::int64_t num_rows = 0;        // at least 1
  std::int64_t num_columns = 0;     // a multiple of 16, at least 16
  std::int64_t padded_rows = 0;     // a multiple of 16
  DataType dtype = DataType::kBFloat16;
  Fp8Format format = Fp8Format::kE4M3;
  int num_matrices = 1;
  int scale_stride = 2;
  int amax_stride = 0;  // of amax.bits, from matrix to matrix
};
void launch_fp8_cast(const Fp8CastArguments& arguments, void* stream);

// Values of e4m3 codes.
struct Fp8DecodeArguments {
  const std::uint8_t* codes = nullptr;  // `numel`, 16-byte aligned
  const float* scale = nullptr;         // factor
  void* values = nullptr;               // 16-byte aligned
  std::int64_t numel = 0;               // a multiple of 16, at least 16
  DataType dtype = DataType::kBFloat16;
};
void launch_fp8_decode(const Fp8DecodeArguments& arguments, void* stream);

}  // namespace packtrain
