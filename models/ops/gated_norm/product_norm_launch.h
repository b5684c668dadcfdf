#pragma once

#include <cstdint>

#include "framework/core/data_type.h"

namespace packtrain {

// The sizes are those of product_norm.h. Rows have num_parts parts of `width` elements.
struct ProductNormArguments {
  const void* x = nullptr;            // [T, W]
  const void* z = nullptr;            // rows of W elements, z_stride apart
  const float* weight = nullptr;      // [W]; null: no norm
  const void* grad_output = nullptr;  // [T, W]; null: forward
  void* output = nullptr;             // y, or dx; [T, W]
  void* grad_z = nullptr;             // backward: rows of W elements, grad_z_stride apart
  void* recomputed_output = nullptr;  // backward: [T, W] or null
  float* partials = nullptr;          // backward: [blocks, W] or null
  std::int64_t num_rows = 0;
  std::int64_t z_stride = 0;
  std::int64_t grad_z_stride = 0;
  int num_parts = 0;
  int width = 0;
  float epsilon = 0;
  DataType dtype = DataType::kFloat32;
};

inline constexpr int kProductNormMaxWidth = 16384;

// Rows of partial sums that backward writes.
std::int64_t product_norm_backward_blocks(const ProductNormArguments& arguments);
// Forward, or backward when grad_output is set. `stream` is a cudaStream_t. Throws Error(kDevice)
// when the launch fails.
void launch_product_norm(const ProductNormArguments& arguments, void* stream);

}  // namespace packtrain
