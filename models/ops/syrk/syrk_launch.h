#pragma once

#include <cstdint>

namespace packtrain {

// syrk.h describes them. bfloat16, contiguous, at multiples of 16 bytes. n and the columns of x are
// multiples of 8. A transposed x of several matrices has a multiple of 64 rows.
struct SyrkArguments {
  const void* x = nullptr;       // [count, n, k], transposed: [count, k, n]
  const void* addend = nullptr;  // [count, n, n] or null
  void* out = nullptr;           // [count, n, n]
  int count = 0;
  int n = 0;
  int k = 0;
  float scale = 1;
  bool transposed = false;
};

// How many tiles of 128 x 128 each multiprocessor computes one after another, at most.
std::int64_t syrk_rounds(std::int64_t count, std::int64_t n, int num_multiprocessors);
// The same for a GEMM that computes all tiles.
std::int64_t gemm_rounds(std::int64_t count, std::int64_t n, int num_multiprocessors);

// `stream` is a cudaStream_t. Throws Error(kDevice) when the launch fails.
void launch_syrk(const SyrkArguments& arguments, void* stream);

}  // namespace packtrain
