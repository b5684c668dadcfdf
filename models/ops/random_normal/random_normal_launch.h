#pragma once

#include <cstdint>

#include "framework/core/random.h"

namespace packtrain {

struct RandomNormalArguments {
  CounterRandom random;
  std::int64_t begin = 0;
  double deviation = 0;
  float* values = nullptr;
  std::int64_t numel = 0;  // at least 1
};

// `stream` is a cudaStream_t. Throws Error(kDevice) when the launch fails.
void launch_random_normal(const RandomNormalArguments& arguments, void* stream);

}  // namespace packtrain
