// The kernels of 8-bit floats with a scale for each 128 numbers. `stream` is a cudaStream_t. All
// throw Error(kDevice) when a launch fails.
#pragma once

#include <cstdint>

#include "framework/core/data_type.h"
#include "models/ops/fp8/fp8_launch.h"

namespace packtrain {

// fp8_block.h has the layouts of the scales.
struct Fp8BlockCastArguments {
  const void* values = nullptr;     // [num_rows, num_columns], 16-byte aligned
  std::uint8_t* rows = nullptr;     // [padded_rows, num_columns], or null
  float* row_scales = nullptr;      // of `rows`
  std::uint8_t* columns = nullptr;  // [num_columns, padded_rows], or null
  float* column_scales = nullptr;   // of `columns`
  std::int64_t num_rows = 0;        // at least 1
  std::int64_t num_columns = 0;     // a multiple of 16, at least 16
  std::int64_t padded_rows = 0;     // a multiple of 16
  DataType dtype = DataType::kBFloat16;
  // If it has any, `columns` have one scale, and column_scales [2] are its factor and amax.
  Fp8AmaxPartials amax = {};
  Fp8Format column_format = Fp8Format::kE4M3;  // other than e4m3 with one scale alone
};
// A scale for each 128 numbers of a row or column.
void launch_fp8_group_cast(const Fp8BlockCastArguments& arguments, void* stream);
// A scale for each 128 x 128 numbers. Either `rows` or `columns`; num_rows is padded_rows.
void launch_fp8_block_cast(const Fp8BlockCastArguments& arguments, void* stream);

}  // namespace packtrain
