// The rows of logits that the head computes together.
#pragma once

#include <cstdint>

namespace packtrain {

inline constexpr std::int64_t kAlignedWords =
    8;  // elements that fast GEMMs and 16-byte accesses need

// Rows of logits start at multiples of 16 bytes for any vocabulary size. Kernels and GEMMs need
// that for 16-byte accesses.
std::int64_t logits_stride(std::int64_t vocab_size);

// Input of plan_head_chunks.
struct HeadSize {
  std::int64_t num_rows = 0;
  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;
  std::int64_t element_bytes = 0;
  bool narrow_gradient = false;  // d weight is stored in less than float32
};

struct HeadChunks {
  std::int64_t rows = 0;  // of a chunk; the last one may have fewer
  std::int64_t logits_bytes = 0;
  std::int64_t gradient_bytes = 0;  // float32 sum of d weight, if any
  std::int64_t weight_bytes = 0;    // padded copy, if V is not a multiple of 8
};

// On a GPU, chunks have about 2 GiB of bfloat16 logits. Chunks of half as many rows are 3 % slower
// on an H200: 40.1 and 38.8 ms for 8192 x 4096 x 128256. For 16384 x 2048 it is 41.5 and 40.2 ms.
// One chunk is used when that takes no more memory than a chunk and the float32 sum.
HeadChunks plan_head_chunks(const HeadSize& size, bool on_gpu);

}  // namespace packtrain
