// These kernels are bound by memory. One pass reads the numbers, because a tile has all that share
// a scale. fp8_tile.cuh has how a cast lays out its work. Eight threads of a warp have a row of the
// tile, so that three exchanges give its amax. A warp finds the amax of a column in its 16 rows by
// exchanges, and the block that of the eight warps in shared memory.
#include "framework/device/cuda/check.h"
#include "models/ops/fp8/fp8_block_launch.h"
#include "models/ops/fp8/fp8_tile.cuh"

namespace packtrain {
namespace {

using namespace fp8_tile;

constexpr int kWarps = kThreads / 32;
constexpr int kScaleAlignment = 4;  // of rows of the scales of blocks

enum class ColumnScales { kNone, kGroups, kTensorE4m3, kTensorE5m2 };

template <typename T>
__device__ std::uint32_t largest_of(const RowVectors<T>& row) {
  WordMax<T> most;
#pragma unroll
  for (int w = 0; w < RowVectors<T>::kCount * 4; ++w) most.add(row.word(w));
  return most.bits();
}

// The largest one of the eight threads that have a row.
__device__ std::uint32_t row_max(std::uint32_t bits) {
#pragma unroll
  for (int lane = 1; lane < kColumnGroups; lane *= 2) {
    bits = max(bits, __shfl_xor_sync(~0U, bits, lane));
  }
  return bits;
}

__device__ void store_column_max(const WordMax<float>& most, int word, std::uint32_t* columns) {
  columns[word] = most.most;
}
__device__ void store_column_max(const WordMax<__nv_bfloat16>& most, int word,
                                 std::uint32_t* columns) {
  columns[2 * word] = most.most << 16U;
  columns[2 * word + 1] = most.most & 0xFFFF0000U;
}

// Writes the largest numbers of a warp's 16 rows to of_warps [kWarps, kTile].
template <typename T>
__device__ void enter_column_maxima(const ThreadPart<T>& part, std::uint32_t* of_warps) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  std::uint32_t* columns =
      of_warps + static_cast<int>(threadIdx.x) / 32 * kTile + lane % kColumnGroups * kThreadColumns;
#pragma unroll
  for (int w = 0; w < RowVectors<T>::kCount * 4; ++w) {
    WordMax<T> most;
#pragma unroll
    for (int r = 0; r < kThreadRows; ++r) most.add(part.rows[r].word(w));
#pragma unroll
    for (int other = kColumnGroups; other < 32; other *= 2) {
      most.add(__shfl_xor_sync(~0U, most.most, other));
    }
    if (lane < kColumnGroups) store_column_max(most, w, columns);
  }
}

// The multipliers of the tile's columns, [kTile] in shared memory. Writes their factors.
template <typename T>
__device__ void find_column_scales(const ThreadPart<T>& part, const TileOrigin& origin,
                                   const Fp8BlockCastArguments& a, std::uint32_t* of_warps,
                                   float* multipliers) {
  enter_column_maxima(part, of_warps);
  __syncthreads();
  if (threadIdx.x < kTile) {
    std::uint32_t bits = 0;
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp)
      bits = max(bits, of_warps[warp * kTile + threadIdx.x]);
    const fp8::ScaleBits scale = fp8::scale_of(bits, Fp8Format::kE4M3);
    multipliers[threadIdx.x] = __uint_as_float(scale.multiplier);
    const std::int64_t column = origin.column + threadIdx.x;
    if (column < a.num_columns) {
      a.column_scales[origin.row / kTile * a.num_columns + column] = __uint_as_float(scale.factor);
    }
  }
  __syncthreads();
}

// Writes the codes and scales of a thread's rows, and zeros up to padded_rows.
template <typename T>
__device__ void cast_rows(const ThreadPart<T>& part, const Fp8BlockCastArguments& a) {
#pragma unroll
  for (int r = 0; r < kThreadRows; ++r) {
    const std::int64_t row = part.row + r;
    const std::uint32_t bits = row_max(largest_of(part.rows[r]));
    const fp8::ScaleBits scale = fp8::scale_of(bits, Fp8Format::kE4M3);
    if (row >= a.padded_rows || !part.has_columns) continue;
    std::uint32_t codes[4];
    part.rows[r].template encode<Fp8Format::kE4M3>(__uint_as_float(scale.multiplier), codes);
    store_row(codes, a.rows + row * a.num_columns + part.column);
    if (part.column % kTile != 0) continue;
    a.row_scales[part.column / kTile * a.padded_rows + row] = __uint_as_float(scale.factor);
  }
}

// Zeros, and not zeros times NaN, after the last row.
template <typename T>
__device__ void encode_by_groups(const ThreadPart<T>& part, const float* multipliers,
                                 std::int64_t num_rows, std::uint32_t (&codes)[kThreadRows][4]) {
  float of_thread[kThreadColumns];
  const int column_group = place_of(static_cast<int>(threadIdx.x)).column_group;
#pragma unroll
  for (int i = 0; i < kThreadColumns; ++i) {
    of_thread[i] = multipliers[column_group * kThreadColumns + i];
  }
#pragma unroll
  for (int r = 0; r < kThreadRows; ++r) {
    const bool exists = part.row + r < num_rows;
    part.rows[r].template encode_columns<Fp8Format::kE4M3>(
        [&](int i) { return exists ? of_thread[i] : 1.0F; }, codes[r]);
  }
}

// Zeros, and not zeros times NaN, after the last row.
template <Fp8Format kFormat, typename T>
__device__ void encode_by_one(const ThreadPart<T>& part, float multiplier, std::int64_t num_rows,
                              std::uint32_t (&codes)[kThreadRows][4]) {
#pragma unroll
  for (int r = 0; r < kThreadRows; ++r) {
    part.rows[r].template encode<kFormat>(part.row + r < num_rows ? multiplier : 1, codes[r]);
  }
}

template <typename T, bool kRows, ColumnScales kColumns>
__global__ void __launch_bounds__(kThreads) fp8_group_cast_kernel(const Fp8BlockCastArguments a) {
  constexpr bool kHasColumns = kColumns != ColumnScales::kNone;
  __shared__ __align__(16) std::uint32_t tile[kHasColumns ? kTile * kTile / 4 : 4];
  __shared__ float multipliers[kTile];
  const TileOrigin origin = tile_origin();
  ThreadPart<T> part;
  part.load(static_cast<const T*>(a.values), a.num_rows, a.num_columns, origin.row, origin.column);
  if constexpr (kRows) cast_rows(part, a);
  if constexpr (kHasColumns) {
    std::uint32_t codes[kThreadRows][4];
    if constexpr (kColumns == ColumnScales::kGroups) {
      find_column_scales(part, origin, a, tile, multipliers);
      encode_by_groups(part, multipliers, a.num_rows, codes);
    } else {
      constexpr Fp8Format kFormat =
          kColumns == ColumnScales::kTensorE4m3 ? Fp8Format::kE4M3 : Fp8Format::kE5M2;
      encode_by_one<kFormat>(part, find_multiplier(a.amax, kFormat, a.column_scales), a.num_rows,
                             codes);
    }
    enter_columns(codes, tile);
    __syncthreads();
    store_columns({a.columns, a.num_columns, a.padded_rows}, tile, origin);
  }
}

__device__ std::int64_t blocks_of(std::int64_t size) {
  return (size + kTile - 1) / kTile;
}

// Writes the factor of a block for its codes as they are, or transposed.
__device__ void store_block_scale(const Fp8BlockCastArguments& a, const TileOrigin& origin,
                                  bool transposed, std::uint32_t factor) {
  const std::int64_t row = transposed ? origin.column : origin.row;
  const std::int64_t column = transposed ? origin.row : origin.column;
  const std::int64_t num_columns = blocks_of(transposed ? a.num_rows : a.num_columns);
  const std::int64_t stride =
      (num_columns + kScaleAlignment - 1) / kScaleAlignment * kScaleAlignment;
  (transposed ? a.column_scales : a.row_scales)[row / kTile * stride + column / kTile] =
      __uint_as_float(factor);
}

template <typename T, bool kColumns>
__global__ void __launch_bounds__(kThreads) fp8_block_cast_kernel(const Fp8BlockCastArguments a) {
  __shared__ __align__(16) std::uint32_t tile[kColumns ? kTile * kTile / 4 : 4];
  const TileOrigin origin = tile_origin();
  ThreadPart<T> part;
  part.load(static_cast<const T*>(a.values), a.num_rows, a.num_columns, origin.row, origin.column);
  std::uint32_t bits = 0;
#pragma unroll
  for (int r = 0; r < kThreadRows; ++r) bits = max(bits, largest_of(part.rows[r]));
  const fp8::ScaleBits scale = fp8::scale_of(block_max(bits), Fp8Format::kE4M3);
  if (threadIdx.x == 0) store_block_scale(a, origin, kColumns, scale.factor);
  std::uint32_t codes[kThreadRows][4];
  encode_by_one<Fp8Format::kE4M3>(part, __uint_as_float(scale.multiplier), a.num_rows, codes);
  if constexpr (kColumns) {
    enter_columns(codes, tile);
    __syncthreads();
    store_columns({a.columns, a.num_columns, a.padded_rows}, tile, origin);
  } else {
#pragma unroll
    for (int r = 0; r < kThreadRows; ++r) {
      if (part.row + r >= a.num_rows || !part.has_columns) continue;
      store_row(codes[r], a.rows + (part.row + r) * a.num_columns + part.column);
    }
  }
}

template <typename T, ColumnScales kColumns>
void launch_groups(const Fp8BlockCastArguments& a, cudaStream_t stream) {
  const dim3 grid = grid_of_tiles(a.num_rows, a.num_columns);
  if (a.rows != nullptr) {
    fp8_group_cast_kernel<T, true, kColumns><<<grid, kThreads, 0, stream>>>(a);
  } else if constexpr (kColumns == ColumnScales::kGroups) {
    fp8_group_cast_kernel<T, false, kColumns><<<grid, kThreads, 0, stream>>>(a);
  }
}

template <typename T>
void launch_groups(const Fp8BlockCastArguments& a, cudaStream_t stream) {
  if (a.columns == nullptr) return launch_groups<T, ColumnScales::kNone>(a, stream);
  if (a.amax.count == 0) return launch_groups<T, ColumnScales::kGroups>(a, stream);
  if (a.column_format == Fp8Format::kE4M3) {
    return launch_groups<T, ColumnScales::kTensorE4m3>(a, stream);
  }
  launch_groups<T, ColumnScales::kTensorE5m2>(a, stream);
}

template <typename T>
void launch_blocks(const Fp8BlockCastArguments& a, cudaStream_t stream) {
  const dim3 grid = grid_of_tiles(a.num_rows, a.num_columns);
  if (a.columns != nullptr) {
    fp8_block_cast_kernel<T, true><<<grid, kThreads, 0, stream>>>(a);
  } else {
    fp8_block_cast_kernel<T, false><<<grid, kThreads, 0, stream>>>(a);
  }
}

}  // namespace

void launch_fp8_group_cast(const Fp8BlockCastArguments& a, void* stream) {
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  if (a.dtype == DataType::kBFloat16) {
    launch_groups<__nv_bfloat16>(a, cuda_stream);
  } else {
    launch_groups<float>(a, cuda_stream);
  }
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

void launch_fp8_block_cast(const Fp8BlockCastArguments& a, void* stream) {
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  if (a.dtype == DataType::kBFloat16) {
    launch_blocks<__nv_bfloat16>(a, cuda_stream);
  } else {
    launch_blocks<float>(a, cuda_stream);
  }
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace packtrain
