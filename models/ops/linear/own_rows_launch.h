#pragma once

#include <cstdint>

#include "framework/core/data_type.h"

namespace packtrain {

constexpr int kMaxScaledModules = 64;

struct ScaledModule {
  int end = 0;  // its columns follow those of the module before
  int adapter = 0;
  float scale = 1;
};

struct OwnRowsArguments {
  void* s = nullptr;                     // [num_rows, width], rows `stride` elements apart
  const std::int32_t* begins = nullptr;  // of the adapters, and the end of the last
  std::int64_t num_rows = 0;
  std::int64_t stride = 0;
  int width = 0;
  int num_modules = 0;
  ScaledModule modules[kMaxScaledModules];
  DataType dtype = DataType::kFloat32;
};

// `stream` is a cudaStream_t. Throws Error(kDevice) when the launch fails.
void launch_scale_own_rows(const OwnRowsArguments& arguments, void* stream);

}  // namespace packtrain
