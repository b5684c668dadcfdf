#pragma once

#include <cstdint>

#include "framework/core/data_type.h"

namespace packtrain {

struct SampleLabelsArguments {
  const void* logits = nullptr;             // [num_rows, vocab_size], rows `row_stride` apart
  const std::int64_t* row_seeds = nullptr;  // [num_rows]
  std::int32_t* labels = nullptr;           // [num_rows], written
  std::int64_t num_rows = 0;
  std::int64_t vocab_size = 0;
  std::int64_t row_stride = 0;  // elements; rows start at multiples of 16 bytes
  float soft_cap = 0;           // 0: none
  DataType dtype = DataType::kFloat32;
};

// `stream` is a cudaStream_t. Throws Error(kDevice) when the launch fails.
void launch_sample_labels(const SampleLabelsArguments& arguments, void* stream);

}  // namespace packtrain
