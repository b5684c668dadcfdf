// The nonlinearities of activation.h and their slopes, for one number.
#pragma once

#include "models/ops/activation/activation_kind.h"

namespace packtrain::device {

struct ValueAndSlope {
  float value;
  float slope;
};

// 1 / (1 + e^-z) to about 2 ulp. It is 0 where e^-z is infinite.
__device__ inline float logistic(float z) {
  return __fdividef(1.0F, 1.0F + __expf(-z));
}

// (1 + erf(z / sqrt(2))) / 2, accurate to 1e-7 (Abramowitz and Stegun, Handbook of Mathematical
// Functions, 7.1.26). `bell` is e^(-z^2 / 2). With erff, arithmetic would be the limit and not
// memory.
__device__ inline float normal_cdf(float z, float bell) {
  constexpr float kSqrtHalf = 0.70710678118654752F;
  const float t = __fdividef(1.0F, 1.0F + 0.3275911F * kSqrtHalf * fabsf(z));
  float sum = 1.061405429F;
  sum = sum * t - 1.453152027F;
  sum = sum * t + 1.421413741F;
  sum = sum * t - 0.284496736F;
  sum = sum * t + 0.254829592F;
  const float tail = 0.5F * sum * t * bell;
  return z < 0 ? tail : 1.0F - tail;
}

template <ActivationKind kKind>
__device__ ValueAndSlope evaluate(float z) {
  if constexpr (kKind == ActivationKind::kGeluErf) {
    constexpr float kDensity = 0.39894228040143268F;  // 1 / sqrt(2 pi)
    const float bell = __expf(-0.5F * z * z);
    const float share = normal_cdf(z, bell);
    return {z * share, share + z * kDensity * bell};
  } else if constexpr (kKind == ActivationKind::kGeluTanh) {
    constexpr float kScale = 1.59576912160573071F;  // 2 sqrt(2 / pi)
    constexpr float kCubic = 0.044715F;
    const float square = z * z;
    const float s = logistic(kScale * z * (1.0F + kCubic * square));
    const float slope = kScale * (1.0F + 3.0F * kCubic * square);
    return {z * s, s + z * s * (1.0F - s) * slope};
  } else if constexpr (kKind == ActivationKind::kSquaredRelu) {
    const float positive = fmaxf(z, 0.0F);
    return {positive * positive, 2.0F * positive};
  } else if constexpr (kKind == ActivationKind::kClampedSwish) {
    const float clamped = fminf(z, kSwishLimit);
    const float s = logistic(kSwishScale * clamped);
    const float slope = s + clamped * s * (1.0F - s) * kSwishScale;
    return {clamped * s, z <= kSwishLimit ? slope : 0.0F};
  } else {
    const float s = logistic(z);
    return {z * s, s + z * s * (1.0F - s)};
  }
}

// The factor that multiplies the activated gate.
template <ActivationKind kKind>
__device__ ValueAndSlope evaluate_up(float up) {
  if constexpr (kKind == ActivationKind::kClampedSwish) {
    const float clamped = fminf(fmaxf(up, -kSwishLimit), kSwishLimit);
    return {clamped + 1.0F, clamped == up ? 1.0F : 0.0F};
  } else {
    return {up, 1.0F};
  }
}

}  // namespace packtrain::device
