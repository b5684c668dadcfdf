// What the kernels of updates share: one vector of elements a thread, each inside one piece.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>
#include <type_traits>

#include "framework/device/cuda/check.h"
#include "models/ops/cuda/vector.cuh"
#include "models/ops/fp8/amax.cuh"
#include "training/optimizers/stochastic_rounding.h"
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

// Stores values of the state from element i on. Values in bfloat16 are rounded stochastically.
// kShift chooses other bits of an element's random word for each tensor of the state.
template <int kShift, typename Arguments, int N>
__device__ void store_state(const Arguments& /*a*/, const UpdatePiece& /*piece*/, std::int64_t i,
                            const float (&values)[N], float* to) {
  device::store(values, to + i);
}

template <int kShift, typename Arguments, int N>
__device__ void store_state(const Arguments& a, const UpdatePiece& piece, std::int64_t i,
                            const float (&values)[N], __nv_bfloat16* to) {
  const std::int64_t element = i + piece.element_offset;
  const RandomWords random = moment_random(a.seed, a.step, element / 4);
  device::Vec<std::uint16_t, N> rounded;
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const std::uint32_t bits = random.values[N == 1 ? element % 4 : k] >> kShift;
    rounded.values[k] = round_stochastically(__float_as_uint(values[k]), bits);
  }
  device::store_vec(rounded, reinterpret_cast<std::uint16_t*>(to) + i);
}

// Rounds masters of `element` of the model and of those after it to bfloat16, stochastically. N is
// 1, 4 or 8, and divides `element`.
template <typename Arguments, int N>
__device__ void round_masters(const Arguments& a, std::int64_t element, float (&values)[N]) {
  static_assert(N == 1 || N == 4 || N == 8);
  RandomWords random = master_random(a.seed, a.step, element / 8);
  if (N == 4 && element % 8 != 0) {
    random.values[0] = random.values[2];
    random.values[1] = random.values[3];
  }
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const std::uint32_t bits = master_bits(random, N == 1 ? element % 8 : k);
    const std::uint32_t rounded = round_stochastically(__float_as_uint(values[k]), bits);
    values[k] = __uint_as_float(rounded << 16);
  }
}

// Stores masters from element i on, and the weight if it has its own memory. `values` are then the
// masters as stored.
template <typename Master, typename Arguments, int N>
__device__ void store_master(const Arguments& a, const UpdatePiece& piece, std::int64_t i,
                             float (&values)[N]) {
  if constexpr (std::is_same_v<Master, __nv_bfloat16>) {
    round_masters(a, i + piece.element_offset, values);
  }
  device::store(values, static_cast<Master*>(a.master) + i);
  if (a.weight != nullptr) device::store(values, static_cast<__nv_bfloat16*>(a.weight) + i);
}

template <int N>
using Elements = std::integral_constant<int, N>;

template <typename Gradient, typename State, typename Master, typename Launch>
void launch_update_of(const PartArguments& a, bool takes_vectors, const Launch& launch) {
  const auto blocks = [&](int elements) {
    const std::int64_t per_block = std::int64_t{kUpdateThreads} * elements;
    return static_cast<unsigned>((a.end() - a.begin + per_block - 1) / per_block);
  };
  if (takes_vectors) {
    launch(Gradient{}, State{}, Master{}, Elements<kUpdateVecSize>{}, blocks(kUpdateVecSize));
  } else {
    launch(Gradient{}, State{}, Master{}, Elements<1>{}, blocks(1));
  }
}

template <typename Gradient, typename State, typename Launch>
void launch_master_of(const PartArguments& a, bool takes_vectors, const Launch& launch) {
  if (a.master_dtype == DataType::kBFloat16) {
    launch_update_of<Gradient, State, __nv_bfloat16>(a, takes_vectors, launch);
  } else {
    launch_update_of<Gradient, State, float>(a, takes_vectors, launch);
  }
}

// Calls launch(Gradient{}, State{}, Master{}, Elements<of a thread>{}, blocks of threads): values
// choose the types of a kernel.
template <typename Launch>
void launch_update(const PartArguments& a, DataType state, bool takes_vectors,
                   const Launch& launch) {
  const bool is_bfloat16 = state == DataType::kBFloat16;
  if (a.grad_dtype == DataType::kBFloat16) {
    is_bfloat16 ? launch_master_of<__nv_bfloat16, __nv_bfloat16>(a, takes_vectors, launch)
                : launch_master_of<__nv_bfloat16, float>(a, takes_vectors, launch);
  } else {
    is_bfloat16 ? launch_master_of<float, __nv_bfloat16>(a, takes_vectors, launch)
                : launch_master_of<float, float>(a, takes_vectors, launch);
  }
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace packtrain
