// Arguments of AdamW's kernels: raw pointers and float32 scalars.
#pragma once

#include <cstdint>

#include "framework/core/data_type.h"

namespace packtrain {

// Elements from the end of the piece before it up to `end`.
struct AdamWPiece {
  std::int64_t end = 0;
  std::int64_t element_offset = 0;  // element index in the model = index in the shard + this
  float decay = 1;                  // 1 - lr wd
  int amax = -1;                    // element of AdamWArguments::amax; -1: none
};

// Kernel parameters are limited to 4 KiB on every GPU.
inline constexpr int kMaxAdamWPieces = 128;

struct AdamWArguments {
  float* master = nullptr;
  const void* grad = nullptr;
  void* exp_avg = nullptr;
  void* exp_avg_sq = nullptr;
  void* weight = nullptr;         // bfloat16; null: not written
  std::uint32_t* amax = nullptr;  // null: no piece has one
  DataType grad_dtype = DataType::kFloat32;
  DataType moments_dtype = DataType::kFloat32;
  const float* clip_factor = nullptr;
  const std::uint8_t* skip = nullptr;

  float beta1 = 0;
  float one_minus_beta1 = 0;  // rounded from the exact difference
  float beta2 = 0;
  float one_minus_beta2 = 0;
  float step_size = 0;           // lr / (1 - b1^t)
  float inverse_root_bias2 = 1;  // 1 / sqrt(1 - b2^t)
  float epsilon = 0;
  std::uint64_t seed = 0;
  std::uint64_t step = 0;

  std::int64_t begin = 0;  // the last piece's end is the end of the range
  int num_pieces = 0;
  AdamWPiece pieces[kMaxAdamWPieces];

  constexpr std::int64_t end() const {
    return num_pieces == 0 ? begin : pieces[num_pieces - 1].end;
  }
};

}  // namespace packtrain
