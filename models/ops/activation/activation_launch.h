#pragma once

#include <cstdint>

#include "framework/core/data_type.h"
#include "models/ops/activation/activation_kind.h"

namespace packtrain {

struct ActivationArguments {
  const void* x = nullptr;            // [num_rows, 2 * inner], or plain [num_rows, inner]
  const void* grad_output = nullptr;  // [num_rows, inner]; null: forward
  void* output = nullptr;             // forward [num_rows, inner], backward shaped as x
  void* recomputed_output = nullptr;  // backward: [num_rows, inner] or null
  std::uint32_t* amax = nullptr;      // [kFp8AmaxSlots] of the output (ops/fp8), or null
  std::int64_t num_rows = 0;
  std::int64_t inner = 0;
  Activation activation;
  DataType dtype = DataType::kFloat32;
};

// `stream` is a cudaStream_t. Throws Error(kDevice) when the launch fails.
void launch_activation(const ActivationArguments& arguments, void* stream);

}  // namespace packtrain
