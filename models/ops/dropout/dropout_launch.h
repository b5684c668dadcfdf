#pragma once

#include <cstdint>

#include "framework/core/data_type.h"

namespace packtrain {

struct DropoutArguments {
  const void* x = nullptr;
  void* y = nullptr;
  const std::int32_t* row_seeds = nullptr;
  std::int64_t num_rows = 0;
  std::int64_t width = 0;
  std::uint64_t key = 0;
  double probability = 0;
  DataType dtype = DataType::kFloat32;
};

// `stream` is a cudaStream_t. Throws Error(kDevice) when the launch fails.
void launch_dropout(const DropoutArguments& arguments, void* stream);

}  // namespace packtrain
