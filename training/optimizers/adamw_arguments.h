// Arguments of AdamW's kernels: raw pointers and float32 scalars.
#pragma once

#include <cstdint>

#include "framework/core/data_type.h"
#include "training/optimizers/update_pieces.h"

namespace packtrain {

// Scalars of the formula (adamw.h).
struct AdamWScalars {
  float beta1 = 0;
  float one_minus_beta1 = 0;  // rounded from the exact difference
  float beta2 = 0;
  float one_minus_beta2 = 0;
  float step_size = 0;           // lr / (1 - b1^t)
  float inverse_root_bias2 = 1;  // 1 / sqrt(1 - b2^t)
  float epsilon = 0;
};

struct AdamWArguments : PartArguments, AdamWScalars {
  void* exp_avg = nullptr;
  void* exp_avg_sq = nullptr;
  DataType moments_dtype = DataType::kFloat32;
};

}  // namespace packtrain
