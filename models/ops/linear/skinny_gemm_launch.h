#pragma once

#include <cstdint>

#include "models/ops/cuda/column_sums.h"

namespace packtrain {

constexpr int kMaxSkinnyGemmModules = 4;

// Which of low and weight a launch computes. One alone has A and dA, both have B and dB.
enum class SkinnyGemmOutputs { kLow, kWeight, kBoth };

struct SkinnyGemmModule {
  const void* factor = nullptr;  // bfloat16 B [num_columns, rank], or A [rank, num_columns]
  GradientTarget target;         // of the factor's shape, at a multiple of 16 bytes; null: not
                                 // computed
  int rank = 0;                  // a multiple of 8, 64 at most
  int low_begin = 0;             // first column in s and low
  int begin = 0;                 // first column in wide
  int num_columns = 0;           // a multiple of 8
  float scale = 1;               // of low
  int first_strip = 0;           // set by plan_skinny_gemm()
  int num_strips = 0;
};

// Products of a wide matrix and narrow ones, limited by reading the wide one. For each module and
// its columns w of the wide matrix:
//    kBoth:    low = scale w B,    dB = w^T s
//    kLow:     low = scale w A^T
//    kWeight:  dA = s^T w
// A block computes a strip of a module's columns and a range of rows (a split). Sums over strips
// and over splits are partial and are added in order.
struct SkinnyGemmArguments {
  SkinnyGemmOutputs outputs = SkinnyGemmOutputs::kBoth;
  const void* wide = nullptr;    // bfloat16 [num_rows, width]
  const void* s = nullptr;       // bfloat16 [num_rows, low_width]
  void* low = nullptr;           // bfloat16 [num_rows, low_width], contiguous
  std::int64_t wide_stride = 0;  // a multiple of 8, as that of s
  std::int64_t s_stride = 0;
  int num_rows = 0;  // at least 1
  int width = 0;
  int low_width = 0;  // the sum of the ranks
  int num_modules = 0;
  SkinnyGemmModule modules[kMaxSkinnyGemmModules];

  // Set by plan_skinny_gemm().
  int rank = 0;  // of the kernel: 16, 32, 48 or 64
  int column_warps = 0;
  int strip_columns = 0;
  int num_strips = 0;
  int num_splits = 0;
  int split_rows = 0;
  float* low_partials = nullptr;     // [num_strips, num_rows, rank]
  float* weight_partials = nullptr;  // [num_splits, num_strips, strip_columns, rank]
};

// Chooses strips and splits for a GPU of `num_processors`. `column_warps` of 2, 4 or 8 fixes the
// width of strips; 0 chooses it.
void plan_skinny_gemm(SkinnyGemmArguments& arguments, int num_processors, int column_warps = 0);
// Elements of low_partials and of weight_partials; 0 for what `outputs` does not have.
std::int64_t low_partials_numel(const SkinnyGemmArguments& planned);
std::int64_t weight_partials_numel(const SkinnyGemmArguments& planned);
// `stream` is a cudaStream_t. Throws Error(kDevice) when a launch fails.
void launch_skinny_gemm(const SkinnyGemmArguments& arguments, void* stream);

}  // namespace packtrain
