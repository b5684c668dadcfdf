// What the kernels of updates share: one vector of elements a thread, each inside one piece.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "models/ops/cuda/vector.cuh"
#include "models/ops/fp8/amax.cuh"
#include "training/optimizers/update_pieces.h"

namespace packtrain {

inline constexpr int kUpdateThreads = 256;
inline constexpr int kUpdateVecSize = 4;  // elements: 16 bytes of float32

// Binary search for the first piece that ends after element i.
__device__ inline int find_piece(const UpdatePieces& a, std::int64_t i) {
  int low = 0;
  int high = a.num_pieces - 1;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (a.pieces[middle].end <= i) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// Returns the largest magnitude of a weight so far. It is read early, so that the update does not
// wait for it. An old number is too small at most, which costs an atomic operation.
template <typename Arguments>
__device__ std::uint32_t known_amax(const Arguments& a, const UpdatePiece& piece) {
  return piece.amax < 0 ? 0 : *static_cast<volatile std::uint32_t*>(a.amax + piece.amax);
}

// Enters the largest magnitude of the numbers as written. Rounding keeps their order, so the
// largest one is rounded alone. Few warps have a larger one than is known. Lanes of a warp may have
// different pieces, or none.
template <typename Arguments, int N>
__device__ void enter_amax(const Arguments& a, const UpdatePiece& piece, std::uint32_t known,
                           const float (&w)[N]) {
  std::uint32_t most = device::largest_magnitude(w, 0);
  if (a.weight != nullptr) {
    const auto written = device::from_float<__nv_bfloat16>(__uint_as_float(most));
    most = __float_as_uint(device::to_float(written));
  }
  const unsigned lanes = __match_any_sync(__activemask(), piece.amax);
  most = __reduce_max_sync(lanes, most);
  const bool is_first =
      threadIdx.x % 32 == static_cast<unsigned>(__ffs(static_cast<int>(lanes))) - 1;
  if (is_first && piece.amax >= 0 && most > known) atomicMax(a.amax + piece.amax, most);
}

inline bool aligned(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % (kUpdateVecSize * sizeof(float)) == 0;
}

// True when each vector is inside one piece and starts with the first of four elements that share
// random words.
inline bool has_whole_vectors(const UpdatePieces& a) {
  bool fits = a.begin % kUpdateVecSize == 0;
  for (int p = 0; p < a.num_pieces; ++p) {
    fits = fits && a.pieces[p].end % kUpdateVecSize == 0 &&
           a.pieces[p].element_offset % kUpdateVecSize == 0;
  }
  return fits;
}

}  // namespace packtrain
