#pragma once

#include <cstdint>

#include "framework/core/data_type.h"

namespace packtrain {

inline constexpr std::int64_t kAltUpMostCopies = 8;

// The sizes are those of altup.h. All arrays are contiguous. Coefficients have the dtype of rows.
struct AltUpArguments {
  const void* rows = nullptr;          // x or the predictions [T, C H]
  const void* activated = nullptr;     // a [T, H]; correct only
  const void* grad = nullptr;          // of the output [T, C H]; backward only
  const void* coefficients = nullptr;  // L [T, C C], or 1 + K [T, C]
  void* output = nullptr;              // y or dx [T, C H]; backward of correct: the memory of grad
  void* grad_activated = nullptr;      // [T, H]; backward of correct
  float* grad_coefficients = nullptr;  // backward: [T, C C] or [T, C]
  std::int64_t num_rows = 0;
  int hidden = 0;
  int num_copies = 0;  // at most kAltUpMostCopies
  int active = 0;
  DataType dtype = DataType::kFloat32;
};

// Each is one pass over its arrays. `stream` is a cudaStream_t. Throws Error(kDevice) when the
// launch fails.
void launch_altup_predict(const AltUpArguments& arguments, void* stream);
void launch_altup_predict_backward(const AltUpArguments& arguments, void* stream);
void launch_altup_correct(const AltUpArguments& arguments, void* stream);
void launch_altup_correct_backward(const AltUpArguments& arguments, void* stream);

}  // namespace packtrain
