// AdamW as kernels see it: raw pointers and float32 scalars.
#pragma once

#include <cstdint>

namespace packtrain {

struct AdamWArguments {
  float* master = nullptr;
  const float* grad = nullptr;
  float* exp_avg = nullptr;
  float* exp_avg_sq = nullptr;
  void* weight = nullptr;  // null: not written
  bool weight_is_bfloat16 = false;
  const float* clip_factor = nullptr;
  const std::uint8_t* skip = nullptr;
  std::int64_t numel = 0;

  float beta1 = 0;
  float one_minus_beta1 = 0;  // rounded from the exact difference
  float beta2 = 0;
  float one_minus_beta2 = 0;
  float decay = 1;               // 1 - lr wd
  float step_size = 0;           // lr / (1 - b1^t)
  float inverse_root_bias2 = 1;  // 1 / sqrt(1 - b2^t)
  float epsilon = 0;
};

}  // namespace packtrain
