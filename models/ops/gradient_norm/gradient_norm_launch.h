// Arguments of the kernels of gradient_norm.cu: raw pointers.
#pragma once

#include <cstdint>

#include "framework/core/data_type.h"

namespace packtrain {

inline constexpr int kNumRequests = 3;

struct SquaredNormArguments {
  const void* values = nullptr;
  DataType dtype = DataType::kFloat32;
  std::int64_t numel = 0;
  float* partials = nullptr;
  int num_partials = 0;
};

struct StepSumsArguments {
  const float* partials = nullptr;
  int num_partials = 0;
  const float* loss = nullptr;
  float requests[kNumRequests] = {};
  const float* details = nullptr;
  int num_details = 0;
  float* sums = nullptr;
};

struct StepScalarsArguments {
  const float* sums = nullptr;
  int num_details = 0;
  float max_norm = 0;
  float loss_bound = 0;
  float norm_bound = 0;
  float* outcome = nullptr;
  float* clip_factor = nullptr;
  std::uint8_t* skip = nullptr;
};

// `stream` is a cudaStream_t. All throw Error(kDevice) when the launch fails.
void launch_squared_norm(const SquaredNormArguments& arguments, void* stream);
void launch_step_sums(const StepSumsArguments& arguments, void* stream);
void launch_step_scalars(const StepScalarsArguments& arguments, void* stream);

}  // namespace packtrain
