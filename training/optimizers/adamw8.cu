// One warp has a block of 256 elements at a time, a lane eight of them. Codes and their
// numbers are read from tables in shared memory. Instructions, not memory, bound a kernel that
// finds codes by arithmetic, or with IEEE divisions and roots.
#include <cuda_bf16.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "framework/device/cuda/check.h"
#include "models/ops/cuda/vector.cuh"
#include "training/optimizers/adamw8_arguments.h"
#include "training/optimizers/update_pieces.cuh"

namespace packtrain {
namespace {

constexpr int kPerLane = static_cast<int>(kMomentBlock) / 32;
constexpr int kWarps = kUpdateThreads / 32;

// Not __constant__: the lanes of a warp read different numbers.
__device__ const DynamicMap kMaps[2] = {dynamic_map(true), dynamic_map(false)};
__device__ const CodeTable kTables[2] = {code_table(true), code_table(false)};

struct SharedTables {
  float maps[2][kCodes];
  CodeTable codes[2];
};

__device__ void load_tables(SharedTables& tables) {
  for (int i = static_cast<int>(threadIdx.x); i < kCodes; i += kUpdateThreads) {
    tables.maps[0][i] = kMaps[0][i];
    tables.maps[1][i] = kMaps[1][i];
  }
  constexpr int kCells = static_cast<int>(CodeTable::kCells) + 1;
  for (int i = static_cast<int>(threadIdx.x); i < kCells; i += kUpdateThreads) {
    tables.codes[0].cells[i] = kTables[0].cells[i];
    tables.codes[1].cells[i] = kTables[1].cells[i];
  }
  __syncthreads();
}

// Elements of a block that a lane has. Elements of a run follow each other. The lanes of a warp
// load neighbouring vectors of 16 bytes of masters. kWhole: the lane has all, and they are aligned.
template <int kRun, bool kWhole>
struct Lane {
  std::int64_t first;
  std::int64_t end;

  __device__ Lane(std::int64_t begin, std::int64_t end_of_piece)
      : first(begin + static_cast<std::int64_t>(threadIdx.x % 32) * kRun), end(end_of_piece) {}

  __device__ std::int64_t run(int r) const { return first + r * 32 * kRun; }
  __device__ std::int64_t place(int k) const { return run(k / kRun) + k % kRun; }
  __device__ bool has(int k) const { return kWhole || place(k) < end; }
};

template <int kRun>
__device__ float (&run_of(float (&values)[kPerLane], int r))[kRun] {
  return reinterpret_cast<float(&)[kRun]>(values[r * kRun]);
}
template <int kRun>
__device__ const float (&run_of(const float (&values)[kPerLane], int r))[kRun] {
  return reinterpret_cast<const float(&)[kRun]>(values[r * kRun]);
}

// Elements that the lane does not have are 0.
template <int kRun, bool kWhole, typename T>
__device__ void load_lane(const T* from, const Lane<kRun, kWhole>& lane, float (&to)[kPerLane]) {
  if constexpr (kWhole) {
#pragma unroll
    for (int r = 0; r < kPerLane / kRun; ++r) device::load(from + lane.run(r), run_of<kRun>(to, r));
  } else {
#pragma unroll
    for (int k = 0; k < kPerLane; ++k) {
      to[k] = lane.has(k) ? device::to_float(from[lane.place(k)]) : 0.0F;
    }
  }
}

template <int kRun, bool kWhole, typename T>
__device__ void store_lane(const float (&from)[kPerLane], const Lane<kRun, kWhole>& lane, T* to) {
  if constexpr (kWhole) {
#pragma unroll
    for (int r = 0; r < kPerLane / kRun; ++r)
      device::store(run_of<kRun>(from, r), to + lane.run(r));
  } else {
#pragma unroll
    for (int k = 0; k < kPerLane; ++k) {
      if (lane.has(k)) to[lane.place(k)] = device::from_float<T>(from[k]);
    }
  }
}

// Codes of a lane in registers, four in a word.
struct LaneCodes {
  std::uint32_t words[kPerLane / 4] = {};

  __device__ std::uint32_t get(int k) const { return words[k / 4] >> (k % 4 * 8) & 255U; }
  __device__ void put(int k, std::uint8_t code) {
    words[k / 4] |= static_cast<std::uint32_t>(code) << (k % 4 * 8);
  }
};

template <int kRun, bool kWhole>
__device__ void decode(const CodedMoment& moment, const float* map, const Lane<kRun, kWhole>& lane,
                       float (&to)[kPerLane]) {
  const float largest = moment.largest[lane.first / kMomentBlock];
  LaneCodes codes;
  if constexpr (kWhole) {
#pragma unroll
    for (int r = 0; r < kPerLane / kRun; ++r) {
      std::memcpy(codes.words + r * kRun / 4,
                  __builtin_assume_aligned(moment.codes + lane.run(r), kRun), kRun);
    }
#pragma unroll
    for (int k = 0; k < kPerLane; ++k) to[k] = map[codes.get(k)] * largest;
  } else {
#pragma unroll
    for (int k = 0; k < kPerLane; ++k) {
      to[k] = lane.has(k) ? map[moment.codes[lane.place(k)]] * largest : 0;
    }
  }
}

// All lanes of the warp take part.
template <bool kHasSign, int kRun, bool kWhole>
__device__ void encode(const CodedMoment& moment, const CodeTable& table,
                       const Lane<kRun, kWhole>& lane, const float (&from)[kPerLane]) {
  float largest = 0;
#pragma unroll
  for (const float value : from) largest = fmaxf(largest, fabsf(value));
  largest = __uint_as_float(__reduce_max_sync(0xFFFFFFFFU, __float_as_uint(largest)));
  const float inverse = largest > 0 ? 1 / largest : 0;
  if (threadIdx.x % 32 == 0) moment.largest[lane.first / kMomentBlock] = largest;
  LaneCodes codes;
#pragma unroll
  for (int k = 0; k < kPerLane; ++k) {
    codes.put(k, code_of_bits<kHasSign>(table, __float_as_uint(from[k] * inverse)));
  }
  if constexpr (kWhole) {
#pragma unroll
    for (int r = 0; r < kPerLane / kRun; ++r) {
      std::memcpy(__builtin_assume_aligned(moment.codes + lane.run(r), kRun),
                  codes.words + r * kRun / 4, kRun);
    }
  } else {
#pragma unroll
    for (int k = 0; k < kPerLane; ++k) {
      if (lane.has(k)) moment.codes[lane.place(k)] = static_cast<std::uint8_t>(codes.get(k));
    }
  }
}

// Square root with an error of 2^-23 of itself at most (PTX ISA, sqrt.approx).
__device__ float fast_root(float x) {
  float root;
  asm("sqrt.approx.f32 %0, %1;" : "=f"(root) : "f"(x));
  return root;
}

// The elements of a lane.
struct LaneValues {
  float g[kPerLane];
  float w[kPerLane];
  float m[kPerLane];
  float v[kPerLane];

  // The formula of adamw.h.
  __device__ void update(const AdamW8Arguments& a, const UpdatePiece& piece, float clip) {
#pragma unroll
    for (int k = 0; k < kPerLane; ++k) {
      const float clipped = clip * g[k];
      m[k] = a.beta1 * m[k] + a.one_minus_beta1 * clipped;
      v[k] = a.beta2 * v[k] + a.one_minus_beta2 * clipped * clipped;
      const float root = fast_root(v[k]) * a.inverse_root_bias2 + a.epsilon;
      w[k] = w[k] * piece.decay - __fdividef(a.step_size * m[k], root);
    }
  }
};

// Masters in bfloat16 have one run of 8, which share random words.
template <typename Master>
constexpr int kRunOf = 16 / static_cast<int>(sizeof(Master));

// All lanes of a warp take part.
template <typename Gradient, typename Master, bool kWhole>
__device__ void update_lane(const AdamW8Arguments& a, const SharedTables& tables,
                            const UpdatePiece& piece, float clip,
                            const Lane<kRunOf<Master>, kWhole>& lane) {
  LaneValues values;
  load_lane(static_cast<const Gradient*>(a.grad), lane, values.g);
  load_lane(static_cast<const Master*>(a.master), lane, values.w);
  decode(a.first, tables.maps[0], lane, values.m);
  decode(a.second, tables.maps[1], lane, values.v);
  values.update(a, piece, clip);
  if constexpr (std::is_same_v<Master, __nv_bfloat16>) {
    round_masters(a, lane.first + piece.element_offset, values.w);
  }
  store_lane(values.w, lane, static_cast<Master*>(a.master));
  if (a.weight != nullptr) store_lane(values.w, lane, static_cast<__nv_bfloat16*>(a.weight));
  encode<true>(a.first, tables.codes[0], lane, values.m);
  encode<false>(a.second, tables.codes[1], lane, values.v);
  if (a.amax == nullptr || piece.amax < 0) return;
#pragma unroll
  for (int k = 0; k < kPerLane; ++k) values.w[k] = lane.has(k) ? values.w[k] : 0.0F;
  enter_amax(a, piece, known_amax(a, piece), values.w);
}

template <typename Gradient, typename Master>
__global__ void __launch_bounds__(kUpdateThreads, 4)
    adamw8_kernel(const __grid_constant__ AdamW8Arguments a, bool is_aligned) {
  __shared__ SharedTables tables;
  if (*a.skip != 0) return;
  load_tables(tables);
  const float clip = *a.clip_factor;
  const std::int64_t step = std::int64_t{gridDim.x} * kWarps * kMomentBlock;
  const std::int64_t warp = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  const UpdatePiece* piece = a.pieces;
  std::int64_t end = a.begin;  // of the piece
  for (std::int64_t begin = a.begin + warp * kMomentBlock; begin < a.end(); begin += step) {
    // Most blocks are in the piece of the one before: their loads do not wait for it.
    if (begin >= end) {
      piece = a.pieces + find_piece(a, begin);
      end = piece->end;
    }
    if (is_aligned && end - begin >= kMomentBlock) {
      update_lane<Gradient, Master, true>(a, tables, *piece, clip, {begin, end});
    } else {
      update_lane<Gradient, Master, false>(a, tables, *piece, clip, {begin, end});
    }
  }
}

template <typename Gradient, typename Master>
void launch8_of(const AdamW8Arguments& a, cudaStream_t stream) {
  const std::int64_t num_blocks = (a.end() - a.begin + kMomentBlock - 1) / kMomentBlock;
  const bool is_aligned = aligned(a.master) && aligned(a.grad) && aligned(a.weight) &&
                          aligned(a.first.codes) && aligned(a.second.codes) &&
                          a.begin % kMomentBlock == 0;
  // A warp has several blocks where all multiprocessors still have work.
  constexpr std::int64_t kMaxBlocksOfWarp = 16;
  constexpr std::int64_t kEnoughWarps = 1024 * kWarps;
  const std::int64_t of_warp =
      std::clamp<std::int64_t>(num_blocks / kEnoughWarps, 1, kMaxBlocksOfWarp);
  const std::int64_t of_threads = of_warp * kWarps;
  const auto grid = static_cast<unsigned>((num_blocks + of_threads - 1) / of_threads);
  adamw8_kernel<Gradient, Master><<<grid, kUpdateThreads, 0, stream>>>(a, is_aligned);
}

template <typename Gradient>
void launch8(const AdamW8Arguments& a, cudaStream_t stream) {
  if (a.master_dtype == DataType::kBFloat16) {
    launch8_of<Gradient, __nv_bfloat16>(a, stream);
  } else {
    launch8_of<Gradient, float>(a, stream);
  }
}

}  // namespace

void launch_adamw8(const AdamW8Arguments& arguments, void* stream) {
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  if (arguments.grad_dtype == DataType::kBFloat16) {
    launch8<__nv_bfloat16>(arguments, cuda_stream);
  } else {
    launch8<float>(arguments, cuda_stream);
  }
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace packtrain
