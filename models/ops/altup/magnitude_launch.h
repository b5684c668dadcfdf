#pragma once

#include <cstdint>

#include "framework/core/data_type.h"

namespace packtrain {

inline constexpr float kLeastSquareMagnitude = 1e-5F;

// match_magnitude() of altup.h. Arrays are contiguous, except `grad`.
struct MagnitudeArguments {
  const void* p = nullptr;       // [T, H]
  const void* target = nullptr;  // [T, H]
  const void* grad = nullptr;    // of y: rows of H elements, grad_stride apart; null: forward
  void* output = nullptr;        // y or dp [T, H]
  float* grad_target = nullptr;  // backward: [T, H]
  std::int64_t num_rows = 0;
  std::int64_t grad_stride = 0;
  int hidden = 0;
  DataType dtype = DataType::kFloat32;
};

// Forward, or backward when grad is set. `stream` is a cudaStream_t. Throws Error(kDevice) when the
// launch fails.
void launch_match_magnitude(const MagnitudeArguments& arguments, void* stream);

}  // namespace packtrain
