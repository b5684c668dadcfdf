// Ranges of a part as arguments of an update's kernel.
#pragma once

#include <cstdint>

#include "framework/core/data_type.h"

namespace packtrain {

// Elements from the end of the piece before it up to `end`.
struct UpdatePiece {
  std::int64_t end = 0;
  std::int64_t element_offset = 0;  // element index in the model = index in the part + this
  float decay = 1;                  // 1 - lr wd
  int amax = -1;                    // element of the arguments' amax; -1: none

  bool continues(const UpdatePiece& before) const {
    return decay == before.decay && amax == before.amax && element_offset == before.element_offset;
  }
};

// Kernel parameters are limited to 4 KiB on every GPU.
inline constexpr int kMaxUpdatePieces = 128;

// Elements from `begin` on, in pieces. The base of the arguments of each update.
struct UpdatePieces {
  std::int64_t begin = 0;  // the last piece's end is the end of the range
  int num_pieces = 0;
  UpdatePiece pieces[kMaxUpdatePieces];

  constexpr std::int64_t end() const {
    return num_pieces == 0 ? begin : pieces[num_pieces - 1].end;
  }
};

// Tensors and scalars of a part that all updates have.
struct PartArguments : UpdatePieces {
  void* master = nullptr;
  DataType master_dtype = DataType::kFloat32;
  void* grad = nullptr;           // Muon alone writes it
  void* weight = nullptr;         // bfloat16; null: not written, or it is the master
  std::uint32_t* amax = nullptr;  // null: no piece has one
  DataType grad_dtype = DataType::kFloat32;
  const float* clip_factor = nullptr;  // null: not read
  const std::uint8_t* skip = nullptr;
  std::uint64_t seed = 0;  // of stochastic rounding, as the optimizer step
  std::uint64_t step = 0;
};

}  // namespace packtrain
