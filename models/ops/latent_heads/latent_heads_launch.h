#pragma once

#include <cstdint>

#include "framework/core/data_type.h"

namespace packtrain {

// Sizes as in latent_heads.h. All tensors are contiguous. Forward reads the parts and writes
// `merged`. Backward reads `merged`, which is the gradient, and writes the parts.
struct LatentHeadsArguments {
  void* query = nullptr;      // [T, H (N + R)]
  void* key_value = nullptr;  // [T, H (N + V)]
  void* key_rope = nullptr;   // [T, R]
  void* merged = nullptr;     // [T, 3 H, N + R]
  std::int64_t num_rows = 0;
  int num_heads = 0;
  int rotary_dim = 0;
  int unturned_dim = 0;
  int value_dim = 0;
  bool backward = false;
  DataType dtype = DataType::kFloat32;
};

// `stream` is a cudaStream_t. Throws Error(kDevice) when the launch fails.
void launch_latent_heads(const LatentHeadsArguments& arguments, void* stream);

}  // namespace packtrain
