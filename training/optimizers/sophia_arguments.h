// Arguments of Sophia's kernels: raw pointers and float32 scalars.
#pragma once

#include <cstdint>

#include "framework/core/data_type.h"
#include "training/optimizers/update_pieces.h"

namespace packtrain {

enum class SophiaPass { kUpdate, kHessian };

struct SophiaArguments : UpdatePieces {
  SophiaPass pass = SophiaPass::kUpdate;
  float* master = nullptr;
  const void* grad = nullptr;
  void* exp_avg = nullptr;
  void* hessian = nullptr;
  void* weight = nullptr;                 // bfloat16; null: not written
  std::uint32_t* amax = nullptr;          // null: no piece has one
  std::int32_t* num_unclipped = nullptr;  // [kUnclippedCounters]; null: not counted
  DataType grad_dtype = DataType::kFloat32;
  DataType state_dtype = DataType::kFloat32;
  const float* clip_factor = nullptr;  // of kUpdate
  const std::uint8_t* skip = nullptr;

  float beta1 = 0;
  float one_minus_beta1 = 0;  // rounded from the exact difference
  float beta2 = 0;
  float square_factor = 0;  // (1 - beta2) B
  float learning_rate = 0;
  float gamma = 0;
  float epsilon = 0;
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
};

}  // namespace packtrain
