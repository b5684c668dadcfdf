// Arguments of the kernels of RMSNorm and LayerNorm. All tensors of rows have the same row_stride.
#pragma once

#include <cstdint>

#include "framework/core/data_type.h"

namespace packtrain {

struct NormArguments {
  const void* x = nullptr;            // [num_rows, hidden]
  const void* weight = nullptr;       // [hidden]
  const void* bias = nullptr;         // [hidden] or null
  const void* residual = nullptr;     // backward: added to dx; or null
  const void* grad_output = nullptr;  // [num_rows, hidden]; null: forward
  void* output = nullptr;             // y, or dx, which may overwrite grad_output
  void* recomputed_output = nullptr;  // backward: y, or null
  float* mean = nullptr;              // [num_rows], LayerNorm only; forward writes, backward reads
  float* inverse = nullptr;           // [num_rows] 1 / rms, or 1 / standard deviation
  float* partials = nullptr;      // backward: [norm_backward_blocks(), 1 or (LayerNorm) 2, hidden]
                                  // partial sums of dw, db; null: not wanted
  std::uint32_t* amax = nullptr;  // forward: [kFp8AmaxSlots] of y (ops/fp8), or null
  std::int64_t num_rows = 0;
  std::int64_t hidden = 0;
  std::int64_t row_stride = 0;  // elements from a row to the next one, at least hidden
  float epsilon = 0;
  float weight_offset = 0;
  DataType dtype = DataType::kFloat32;
};

}  // namespace packtrain
