#pragma once

#include <cstdint>

#include "models/ops/cuda/column_sums.h"

namespace packtrain {

constexpr int kMaxLoraGradientsModules = 48;

struct LoraGradientsModule {
  const void* b = nullptr;  // bfloat16 [num_columns, rank]
  GradientTarget target;    // dB, at a multiple of 16 bytes; null: not computed
  int rank = 0;             // a multiple of 8, 64 at most
  int low_begin = 0;        // first column in s and grad_low_rank
  int begin = 0;            // first column in grad_output
  int num_columns = 0;      // a multiple of 8
  float scale = 1;          // of grad_low_rank
  int adapter = 0;          // whose rows are multiplied
  int first_strip = 0;      // set by plan_lora_gradients()
  int num_strips = 0;
  int first_low_strip = 0;  // among the strips of its adapter
};

// For each module, of its columns g of grad_output:  grad_low_rank = scale g B,  dB = g^T s.
// Reading grad_output limits the speed. A block computes a strip of a module's columns and a range
// of rows (a split). Sums over strips and over splits are partial and are added in order.
// A module is of one adapter, and only the rows of that adapter are multiplied. In other rows `s`
// is zero, and so is grad_low_rank. Modules are in the order of their adapters.
struct LoraGradientsArguments {
  const void* grad_output = nullptr;    // bfloat16 [num_rows, width]
  const void* s = nullptr;              // bfloat16 [num_rows, low_width]
  void* grad_low_rank = nullptr;        // bfloat16 [num_rows, low_width], contiguous
  std::int64_t grad_output_stride = 0;  // a multiple of 8, as that of s
  std::int64_t s_stride = 0;
  int num_rows = 0;  // at least 1
  int width = 0;
  int low_width = 0;  // the sum of the ranks
  int num_modules = 0;
  LoraGradientsModule modules[kMaxLoraGradientsModules];
  const std::int32_t* row_begins = nullptr;  // [num_adapters + 1] in GPU memory, or null: one
  int num_adapters = 1;

  // Set by plan_lora_gradients().
  int rank = 0;  // of the kernel: 16, 32, 48 or 64
  int strip_columns = 0;
  int num_strips = 0;
  int num_splits = 0;
  int num_low_strips = 0;         // of the adapter with the most
  float* low_partials = nullptr;  // of grad_low_rank: [num_low_strips, num_rows, rank]
  float* b_partials = nullptr;    // of dB: [num_splits, num_strips, strip_columns, rank]
};

// Chooses strips and splits for a GPU of `num_processors`.
void plan_lora_gradients(LoraGradientsArguments& arguments, int num_processors);
// Elements of low_partials and of b_partials.
std::int64_t low_partials_numel(const LoraGradientsArguments& planned);
std::int64_t b_partials_numel(const LoraGradientsArguments& planned);
// `stream` is a cudaStream_t. Throws Error(kDevice) when a launch fails.
void launch_lora_gradients(const LoraGradientsArguments& arguments, void* stream);

}  // namespace packtrain
