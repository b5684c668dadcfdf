// One warp a block of 256 elements, eight of them a lane. Bound by memory: codes are found by
// arithmetic, numbers of codes are read from shared memory.
#include <cuda_bf16.h>

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

__constant__ DynamicMap kMaps[2] = {dynamic_map(true), dynamic_map(false)};
__constant__ DecadeTable kTables[2] = {decade_table(true), decade_table(false)};

struct SharedTables {
  float maps[2][kCodes];
  DecadeTable decades[2];
};

__device__ void load_tables(SharedTables& tables) {
  for (int i = static_cast<int>(threadIdx.x); i < kCodes; i += kUpdateThreads) {
    tables.maps[0][i] = kMaps[0][i];
    tables.maps[1][i] = kMaps[1][i];
  }
  if (threadIdx.x < 2) tables.decades[threadIdx.x] = kTables[threadIdx.x];
  __syncthreads();
}

// Elements that the lane has of the block: [i, i + n).
struct LaneRange {
  std::int64_t i;
  int n;
};

template <typename T>
__device__ void load_lane(const T* from, const LaneRange& lane, bool whole, float (&to)[kPerLane]) {
  if (whole) {
    device::load(from + lane.i, to);
    return;
  }
#pragma unroll
  for (int k = 0; k < kPerLane; ++k) to[k] = k < lane.n ? device::to_float(from[lane.i + k]) : 0.0F;
}

template <typename T>
__device__ void store_lane(const float (&from)[kPerLane], const LaneRange& lane, bool whole,
                           T* to) {
  if (whole) {
    device::store(from, to + lane.i);
    return;
  }
  for (int k = 0; k < lane.n; ++k) to[lane.i + k] = device::from_float<T>(from[k]);
}

__device__ void decode(const CodedMoment& moment, const float* map, const LaneRange& lane,
                       bool whole, float (&to)[kPerLane]) {
  const float largest = moment.largest[lane.i / kMomentBlock];
  std::uint8_t codes[kPerLane] = {};
  if (whole) {
    *reinterpret_cast<uint2*>(codes) = *reinterpret_cast<const uint2*>(moment.codes + lane.i);
  } else {
    for (int k = 0; k < lane.n; ++k) codes[k] = moment.codes[lane.i + k];
  }
#pragma unroll
  for (int k = 0; k < kPerLane; ++k) to[k] = map[codes[k]] * largest;
}

// All lanes of the warp take part.
__device__ void encode(const CodedMoment& moment, const DecadeTable& table, const LaneRange& lane,
                       bool whole, const float (&from)[kPerLane]) {
  float largest = 0;
#pragma unroll
  for (int k = 0; k < kPerLane; ++k) largest = fmaxf(largest, k < lane.n ? fabsf(from[k]) : 0.0F);
  largest = __uint_as_float(__reduce_max_sync(0xFFFFFFFFU, __float_as_uint(largest)));
  const float inverse = largest > 0 ? 1 / largest : 0;
  if (lane.n <= 0) return;
  if (threadIdx.x % 32 == 0) moment.largest[lane.i / kMomentBlock] = largest;
  alignas(8) std::uint8_t codes[kPerLane];
#pragma unroll
  for (int k = 0; k < kPerLane; ++k) codes[k] = nearest_code(table, from[k] * inverse);
  if (whole) {
    *reinterpret_cast<uint2*>(moment.codes + lane.i) = *reinterpret_cast<const uint2*>(codes);
  } else {
    for (int k = 0; k < lane.n; ++k) moment.codes[lane.i + k] = codes[k];
  }
}

template <typename Gradient, typename Master>
__global__ void __launch_bounds__(kUpdateThreads)
    adamw8_kernel(const __grid_constant__ AdamW8Arguments a, bool is_aligned) {
  __shared__ SharedTables tables;
  load_tables(tables);
  const std::int64_t block = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  const std::int64_t begin = a.begin + block * kMomentBlock;
  if (begin >= a.end() || *a.skip != 0) return;
  const UpdatePiece& piece = a.pieces[find_piece(a, begin)];
  const std::int64_t i = begin + static_cast<std::int64_t>(threadIdx.x % 32) * kPerLane;
  const std::int64_t left = piece.end - i;
  const LaneRange lane{i < piece.end ? i : begin, static_cast<int>(left < 0          ? 0
                                                                   : left < kPerLane ? left
                                                                                     : kPerLane)};
  const bool whole = is_aligned && lane.n == kPerLane;
  float g[kPerLane];
  float w[kPerLane];
  float m[kPerLane];
  float v[kPerLane];
  load_lane(static_cast<const Gradient*>(a.grad), lane, whole, g);
  load_lane(static_cast<const Master*>(a.master), lane, whole, w);
  decode(a.first, tables.maps[0], lane, whole, m);
  decode(a.second, tables.maps[1], lane, whole, v);
  const float clip = *a.clip_factor;
#pragma unroll
  for (int k = 0; k < kPerLane; ++k) {
    const float clipped = clip * g[k];
    m[k] = a.beta1 * m[k] + a.one_minus_beta1 * clipped;
    v[k] = a.beta2 * v[k] + a.one_minus_beta2 * clipped * clipped;
    w[k] =
        w[k] * piece.decay - a.step_size * m[k] / (sqrtf(v[k]) * a.inverse_root_bias2 + a.epsilon);
  }
  if constexpr (std::is_same_v<Master, __nv_bfloat16>) {
    round_masters(a, lane.i + piece.element_offset, w);
  }
  store_lane(w, lane, whole, static_cast<Master*>(a.master));
  if (a.weight != nullptr) store_lane(w, lane, whole, static_cast<__nv_bfloat16*>(a.weight));
  encode(a.first, tables.decades[0], lane, whole, m);
  encode(a.second, tables.decades[1], lane, whole, v);
  if (a.amax == nullptr || piece.amax < 0) return;
#pragma unroll
  for (int k = 0; k < kPerLane; ++k) w[k] = k < lane.n ? w[k] : 0.0F;
  enter_amax(a, piece, known_amax(a, piece), w);
}

template <typename Gradient, typename Master>
void launch8_of(const AdamW8Arguments& a, cudaStream_t stream) {
  const std::int64_t num_blocks = (a.end() - a.begin + kMomentBlock - 1) / kMomentBlock;
  const bool is_aligned = aligned(a.master) && aligned(a.grad) && aligned(a.weight) &&
                          aligned(a.first.codes) && aligned(a.second.codes) &&
                          a.begin % kMomentBlock == 0;
  const auto grid = static_cast<unsigned>((num_blocks + kWarps - 1) / kWarps);
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
