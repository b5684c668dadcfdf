#pragma once

namespace packtrain::device {

constexpr float kLog2E = 1.44269504088896F;

// 2^x within 2 ulp. Unlike exp2f it does not scale denormal results.
__device__ inline float power_of_2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace packtrain::device
