#include "models/ops/adamw/adamw_cpu.h"

#include <c10/util/BFloat16.h>

#include <algorithm>
#include <cmath>

namespace packtrain {

// Plain loops over unaliased pointers, for the compiler to vectorise.
void adamw_cpu_range(const AdamWArguments& a, float clip_factor, std::int64_t begin,
                     std::int64_t end) {
  float* __restrict__ master = a.master;
  const float* __restrict__ grad = a.grad;
  float* __restrict__ exp_avg = a.exp_avg;
  float* __restrict__ exp_avg_sq = a.exp_avg_sq;
  for (std::int64_t i = begin; i < end; ++i) {
    const float g = clip_factor * grad[i];
    const float m = a.beta1 * exp_avg[i] + a.one_minus_beta1 * g;
    const float v = a.beta2 * exp_avg_sq[i] + a.one_minus_beta2 * g * g;
    exp_avg[i] = m;
    exp_avg_sq[i] = v;
    master[i] =
        master[i] * a.decay - a.step_size * m / (std::sqrt(v) * a.inverse_root_bias2 + a.epsilon);
  }
  if (a.weight == nullptr) return;
  if (a.weight_is_bfloat16) {
    auto* __restrict__ weight = static_cast<c10::BFloat16*>(a.weight);
    for (std::int64_t i = begin; i < end; ++i) weight[i] = static_cast<c10::BFloat16>(master[i]);
  } else {
    std::copy(master + begin, master + end, static_cast<float*>(a.weight) + begin);
  }
}

}  // namespace packtrain
