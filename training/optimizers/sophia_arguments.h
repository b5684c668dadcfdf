// Arguments of Sophia's kernels: raw pointers and float32 scalars.
#pragma once

#include <cstdint>

#include "framework/core/data_type.h"
#include "training/optimizers/update_pieces.h"

namespace packtrain {

enum class SophiaPass { kUpdate, kHessian };

struct SophiaArguments : PartArguments {
  SophiaPass pass = SophiaPass::kUpdate;
  void* exp_avg = nullptr;
  void* hessian = nullptr;
  std::int32_t* num_unclipped = nullptr;  // [kUnclippedCounters]; null: not counted
  DataType state_dtype = DataType::kFloat32;

  float beta1 = 0;
  float one_minus_beta1 = 0;  // rounded from the exact difference
  float beta2 = 0;
  float square_factor = 0;  // (1 - beta2) B
  float learning_rate = 0;
  float gamma = 0;
  float epsilon = 0;
};

}  // namespace packtrain
