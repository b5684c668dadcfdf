// Tiles of 128 x 128 numbers that a block of 256 threads casts to 8-bit floats. A thread has 4 rows
// of 16 columns. It writes their codes to `rows` as it read them, 16 bytes a row. For `columns` it
// transposes blocks of 4 x 4 codes in registers. The tile of codes goes through shared memory, from
// which a thread writes 16 codes of a column. Chunks of 16 bytes are permuted there, so that no
// bank is used twice in a warp's access.
#pragma once

#include <cuda_fp8.h>

#include <cstdint>

#include "models/ops/cuda/vector.cuh"
#include "models/ops/fp8/fp8_launch.h"

namespace packtrain::fp8_tile {

constexpr int kThreads = 256;
constexpr int kTile = 128;  // rows and columns
constexpr int kThreadRows = 4;
constexpr int kThreadColumns = 16;
constexpr int kColumnGroups = kTile / kThreadColumns;  // threads of a row
constexpr int kChunk = 16;                             // codes of one store
constexpr int kChunks = kTile / kChunk;
static_assert(kTile / kThreadRows * kColumnGroups == kThreads, "a thread has one part of a tile");
static_assert(kChunks == kColumnGroups, "each column group has a permutation of the chunks");

inline __device__ std::uint32_t block_max(std::uint32_t value) {
  __shared__ std::uint32_t of_warps[kThreads / 32];
  value = __reduce_max_sync(~0U, value);
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = value;
  __syncthreads();
  std::uint32_t most = 0;
#pragma unroll
  for (int warp = 0; warp < kThreads / 32; ++warp) most = max(most, of_warps[warp]);
  return most;
}

// The largest of the words' numbers without their signs, as bits of float32.
template <typename T>
struct WordMax;
template <>
struct WordMax<float> {
  std::uint32_t most = 0;
  __device__ void add(std::uint32_t word) { most = max(most, word & 0x7FFFFFFFU); }
  __device__ std::uint32_t bits() const { return most; }
};
template <>
struct WordMax<__nv_bfloat16> {
  std::uint32_t most = 0;  // of both halves apart
  __device__ void add(std::uint32_t word) { most = __vmaxu2(most, word & 0x7FFF7FFFU); }
  __device__ std::uint32_t bits() const { return max(most << 16U, most & 0xFFFF0000U); }
};

// Two numbers to two codes, the first in the lower byte.
template <Fp8Format kFormat>
inline __device__ std::uint32_t encode_pair(float first, float second) {
  constexpr __nv_fp8_interpretation_t kKind = kFormat == Fp8Format::kE4M3 ? __NV_E4M3 : __NV_E5M2;
  return __nv_cvt_float2_to_fp8x2(make_float2(first, second), __NV_SATFINITE, kKind);
}

// 16 columns of a row, as they were read.
template <typename T>
struct RowVectors {
  static constexpr int kVec = 16 / sizeof(T);
  static constexpr int kCount = kThreadColumns / kVec;
  device::Vec<T, kVec> vectors[kCount] = {};

  __device__ void load(const T* values) {
#pragma unroll
    for (int v = 0; v < kCount; ++v) vectors[v] = device::load_vec<kVec>(values + v * kVec);
  }
  // One of the words in memory, of which there are 4 in a vector.
  __device__ std::uint32_t word(int w) const {
    return reinterpret_cast<const std::uint32_t*>(&vectors[w / 4])[w % 4];
  }
  // `multiplier_of(i)`: that of column i.
  template <Fp8Format kFormat, typename MultiplierOf>
  __device__ void encode_columns(const MultiplierOf& multiplier_of,
                                 std::uint32_t (&codes)[4]) const {
    float x[kThreadColumns];
#pragma unroll
    for (int v = 0; v < kCount; ++v) {
      float part[kVec];
      device::unpack(vectors[v], part);
#pragma unroll
      for (int i = 0; i < kVec; ++i) x[v * kVec + i] = part[i] * multiplier_of(v * kVec + i);
    }
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      codes[w] = encode_pair<kFormat>(x[4 * w], x[4 * w + 1]) |
                 encode_pair<kFormat>(x[4 * w + 2], x[4 * w + 3]) << 16U;
    }
  }
  template <Fp8Format kFormat>
  __device__ void encode(float multiplier, std::uint32_t (&codes)[4]) const {
    encode_columns<kFormat>([=](int) { return multiplier; }, codes);
  }
};

// Row i of 4 x 4 codes to column i.
inline __device__ void transpose(std::uint32_t (&words)[4]) {
  const std::uint32_t low01 = __byte_perm(words[0], words[1], 0x5140);
  const std::uint32_t high01 = __byte_perm(words[0], words[1], 0x7362);
  const std::uint32_t low23 = __byte_perm(words[2], words[3], 0x5140);
  const std::uint32_t high23 = __byte_perm(words[2], words[3], 0x7362);
  words[0] = __byte_perm(low01, low23, 0x5410);
  words[1] = __byte_perm(low01, low23, 0x7632);
  words[2] = __byte_perm(high01, high23, 0x5410);
  words[3] = __byte_perm(high01, high23, 0x7632);
}

// The multiplier of a tensor with this amax. One block of the grid writes `scale`, factor and amax,
// unless it is null.
inline __device__ float find_multiplier(const Fp8AmaxPartials& amax, Fp8Format format,
                                        float* scale) {
  std::uint32_t bits = 0;
  for (int i = threadIdx.x; i < amax.count; i += kThreads) bits = max(bits, amax.bits[i]);
  bits = block_max(bits);
  const fp8::ScaleBits found = fp8::scale_of(bits, format);
  if (scale != nullptr && blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0) {
    scale[0] = __uint_as_float(found.factor);
    scale[1] = __uint_as_float(bits);
  }
  return __uint_as_float(found.multiplier);
}

struct Place {
  int row_group;     // of 4 rows of the tile
  int column_group;  // of 16 columns
};

inline __device__ Place place_of(int thread) {
  return {thread / kColumnGroups, thread % kColumnGroups};
}

// Word of the tile in shared memory that has rows 4 * row_group up to + 3 of a column.
inline __device__ int word_of(int column, int row_group) {
  const int chunk = row_group / 4 ^ column / kThreadColumns;
  return column * (kTile / 4) + chunk * 4 + row_group % 4;
}

// What a thread has of a matrix [num_rows, num_columns]; zeros after its ends.
template <typename T>
struct ThreadPart {
  RowVectors<T> rows[kThreadRows];
  std::int64_t row;     // the first one
  std::int64_t column;  // the first one
  bool has_columns;

  __device__ void load(const T* values, std::int64_t num_rows, std::int64_t num_columns,
                       std::int64_t first_row, std::int64_t first_column) {
    const Place place = place_of(static_cast<int>(threadIdx.x));
    row = first_row + place.row_group * kThreadRows;
    column = first_column + place.column_group * kThreadColumns;
    has_columns = column < num_columns;
#pragma unroll
    for (int r = 0; r < kThreadRows; ++r) {
      if (has_columns && row + r < num_rows) {
        rows[r].load(values + (row + r) * num_columns + column);
      }
    }
  }
};

// 16 codes of a row.
inline __device__ void store_row(const std::uint32_t (&codes)[4], std::uint8_t* to) {
  *reinterpret_cast<uint4*>(to) = make_uint4(codes[0], codes[1], codes[2], codes[3]);
}

// The first row and column of a block's tile. Blocks of the grid's first dimension are tiles of
// rows. They run from the last to the first, because the pass before it reached the last ones last.
struct TileOrigin {
  std::int64_t row;
  std::int64_t column;
};
inline __device__ TileOrigin tile_origin() {
  return {std::int64_t{gridDim.x - 1 - blockIdx.x} * kTile,
          std::int64_t{gridDim.y - 1 - blockIdx.y} * kTile};
}
inline dim3 grid_of_tiles(std::int64_t num_rows, std::int64_t num_columns) {
  return dim3(static_cast<unsigned>((num_rows + kTile - 1) / kTile),
              static_cast<unsigned>((num_columns + kTile - 1) / kTile));
}

// Enters the codes of a thread's 4 rows in the tile, transposed.
inline __device__ void enter_columns(const std::uint32_t (&codes)[kThreadRows][4],
                                     std::uint32_t* tile) {
  const Place place = place_of(static_cast<int>(threadIdx.x));
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    std::uint32_t block[4] = {codes[0][w], codes[1][w], codes[2][w], codes[3][w]};
    transpose(block);
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      tile[word_of(place.column_group * kThreadColumns + 4 * w + c, place.row_group)] = block[c];
    }
  }
}

// `columns` [num_columns, padded_rows].
struct ColumnsOf {
  std::uint8_t* columns;
  std::int64_t num_columns;
  std::int64_t padded_rows;
};

// After __syncthreads().
inline __device__ void store_columns(const ColumnsOf& to, const std::uint32_t* tile,
                                     const TileOrigin& origin) {
#pragma unroll
  for (int i = 0; i < kTile * kChunks / kThreads; ++i) {
    const int chunk = static_cast<int>(threadIdx.x) % kChunks;
    const int column = i * (kThreads / kChunks) + static_cast<int>(threadIdx.x) / kChunks;
    const std::int64_t row = origin.row + chunk * kChunk;
    if (origin.column + column >= to.num_columns || row >= to.padded_rows) continue;
    *reinterpret_cast<uint4*>(to.columns + (origin.column + column) * to.padded_rows + row) =
        *reinterpret_cast<const uint4*>(tile + word_of(column, chunk * 4));
  }
}

}  // namespace packtrain::fp8_tile
