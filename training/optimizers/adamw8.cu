// One warp has a block of 256 elements at a time, a lane eight of them. Codes and their
// numbers are read from tables in shared memory. Instructions, not memory, bound a kernel that
// finds codes by arithmetic, or with IEEE divisions and roots.
#include <cuda_bf16.h>

#include <algorithm>
#include <cstdint>
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

// Elements that the lane has of the block: [i, i + n). All of kPerLane if kWhole, and aligned.
template <bool kWhole>
struct LaneRange {
  std::int64_t i;
  int n;
};

// Elements after the last one are 0.
template <bool kWhole, typename T>
__device__ void load_lane(const T* from, const LaneRange<kWhole>& lane, float (&to)[kPerLane]) {
  if constexpr (kWhole) {
    device::load(from + lane.i, to);
  } else {
#pragma unroll
    for (int k = 0; k < kPerLane; ++k) {
      to[k] = k < lane.n ? device::to_float(from[lane.i + k]) : 0.0F;
    }
  }
}

template <bool kWhole, typename T>
__device__ void store_lane(const float (&from)[kPerLane], const LaneRange<kWhole>& lane, T* to) {
  if constexpr (kWhole) {
    device::store(from, to + lane.i);
  } else {
    for (int k = 0; k < lane.n; ++k) to[lane.i + k] = device::from_float<T>(from[k]);
  }
}

template <bool kWhole>
__device__ void decode(const CodedMoment& moment, const float* map, const LaneRange<kWhole>& lane,
                       float (&to)[kPerLane]) {
  const float largest = moment.largest[lane.i / kMomentBlock];
  if constexpr (kWhole) {
    const auto words = *reinterpret_cast<const uint2*>(moment.codes + lane.i);
#pragma unroll
    for (int k = 0; k < kPerLane; ++k) {
      to[k] = map[__byte_perm(words.x, words.y, 0x4440 + k) & 255] * largest;
    }
  } else {
#pragma unroll
    for (int k = 0; k < kPerLane; ++k) {
      to[k] = k < lane.n ? map[moment.codes[lane.i + k]] * largest : 0;
    }
  }
}

// All lanes of the warp take part.
template <bool kHasSign, bool kWhole>
__device__ void encode(const CodedMoment& moment, const CodeTable& table,
                       const LaneRange<kWhole>& lane, const float (&from)[kPerLane]) {
  float largest = 0;
#pragma unroll
  for (const float value : from) largest = fmaxf(largest, fabsf(value));
  largest = __uint_as_float(__reduce_max_sync(0xFFFFFFFFU, __float_as_uint(largest)));
  const float inverse = largest > 0 ? 1 / largest : 0;
  if (lane.n <= 0) return;
  if (threadIdx.x % 32 == 0) moment.largest[lane.i / kMomentBlock] = largest;
  alignas(8) std::uint8_t codes[kPerLane];
#pragma unroll
  for (int k = 0; k < kPerLane; ++k) {
    codes[k] = code_of_bits<kHasSign>(table, __float_as_uint(from[k] * inverse));
  }
  if constexpr (kWhole) {
    *reinterpret_cast<uint2*>(moment.codes + lane.i) = *reinterpret_cast<const uint2*>(codes);
  } else {
    for (int k = 0; k < lane.n; ++k) moment.codes[lane.i + k] = codes[k];
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

// All lanes of a warp take part.
template <typename Gradient, typename Master, bool kWhole>
__device__ void update_lane(const AdamW8Arguments& a, const SharedTables& tables,
                            const UpdatePiece& piece, const LaneRange<kWhole>& lane) {
  LaneValues values;
  load_lane(static_cast<const Gradient*>(a.grad), lane, values.g);
  load_lane(static_cast<const Master*>(a.master), lane, values.w);
  decode(a.first, tables.maps[0], lane, values.m);
  decode(a.second, tables.maps[1], lane, values.v);
  values.update(a, piece, *a.clip_factor);
  if constexpr (std::is_same_v<Master, __nv_bfloat16>) {
    round_masters(a, lane.i + piece.element_offset, values.w);
  }
  store_lane(values.w, lane, static_cast<Master*>(a.master));
  if (a.weight != nullptr) store_lane(values.w, lane, static_cast<__nv_bfloat16*>(a.weight));
  encode<true>(a.first, tables.codes[0], lane, values.m);
  encode<false>(a.second, tables.codes[1], lane, values.v);
  if (a.amax == nullptr || piece.amax < 0) return;
  if constexpr (!kWhole) {
#pragma unroll
    for (int k = 0; k < kPerLane; ++k) values.w[k] = k < lane.n ? values.w[k] : 0.0F;
  }
  enter_amax(a, piece, known_amax(a, piece), values.w);
}

// All lanes of a warp take part. `begin` is the first element of a block.
template <typename Gradient, typename Master>
__device__ void update_block(const AdamW8Arguments& a, const SharedTables& tables, bool is_aligned,
                             std::int64_t begin) {
  const UpdatePiece& piece = a.pieces[find_piece(a, begin)];
  const std::int64_t i = begin + static_cast<std::int64_t>(threadIdx.x % 32) * kPerLane;
  if (is_aligned && piece.end - begin >= kMomentBlock) {
    return update_lane<Gradient, Master>(a, tables, piece, LaneRange<true>{i, kPerLane});
  }
  const std::int64_t n = min(max(piece.end - i, std::int64_t{0}), std::int64_t{kPerLane});
  update_lane<Gradient, Master>(a, tables, piece,
                                LaneRange<false>{n > 0 ? i : begin, static_cast<int>(n)});
}

template <typename Gradient, typename Master>
__global__ void __launch_bounds__(kUpdateThreads)
    adamw8_kernel(const __grid_constant__ AdamW8Arguments a, bool is_aligned) {
  __shared__ SharedTables tables;
  if (*a.skip != 0) return;
  load_tables(tables);
  const std::int64_t step = std::int64_t{gridDim.x} * kWarps * kMomentBlock;
  const std::int64_t warp = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  for (std::int64_t begin = a.begin + warp * kMomentBlock; begin < a.end(); begin += step) {
    update_block<Gradient, Master>(a, tables, is_aligned, begin);
  }
}

// Blocks of moments that a warp has at most: the fastest of 4, 8 and 16 on an H200
// (docs/performance.md, "AdamW").
template <typename Master>
constexpr std::int64_t kMaxBlocksOfWarp = std::is_same_v<Master, float> ? 4 : 16;

template <typename Gradient, typename Master>
void launch8_of(const AdamW8Arguments& a, cudaStream_t stream) {
  const std::int64_t num_blocks = (a.end() - a.begin + kMomentBlock - 1) / kMomentBlock;
  const bool is_aligned = aligned(a.master) && aligned(a.grad) && aligned(a.weight) &&
                          aligned(a.first.codes) && aligned(a.second.codes) &&
                          a.begin % kMomentBlock == 0;
  // A warp has several blocks where all multiprocessors still have work.
  constexpr std::int64_t kEnoughWarps = 1024 * kWarps;
  const std::int64_t of_warp =
      std::clamp<std::int64_t>(num_blocks / kEnoughWarps, 1, kMaxBlocksOfWarp<Master>);
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
