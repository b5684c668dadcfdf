// AdamW of a range, as bytes: the reads, writes and sums of training/optimizers/adamw.cu without
// its options.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace packtrain {

struct UpdatedRange {
  const void* grad = nullptr;  // bfloat16
  float* master = nullptr;
  float* exp_avg = nullptr;
  float* exp_avg_sq = nullptr;
  void* weight = nullptr;  // bfloat16
  std::int64_t numel = 0;  // a multiple of 4

  UpdatedRange part(std::int64_t begin, std::int64_t count) const;
};

void update_on_all(const UpdatedRange& range, cudaStream_t stream);
// One block on each of `num_multiprocessors`. It leaves no registers for a block of another kernel.
void update_on_few(const UpdatedRange& range, int num_multiprocessors, cudaStream_t stream);

}  // namespace packtrain
