// Both kernels are bound by memory. A thread of the cast has 4 rows of 16 columns. It writes their
// codes to `rows` as it read them, 16 bytes a row. For `columns` it transposes blocks of 4 x 4
// codes in registers. A tile of 128 x 128 codes goes through shared memory, from which a thread
// writes 16 codes of a column. Chunks of 16 bytes are permuted there, so that no bank is used twice
// in a warp's access.
#include <cuda_fp8.h>

#include <algorithm>

#include "framework/device/cuda/check.h"
#include "models/ops/cuda/vector.cuh"
#include "models/ops/fp8/fp8_launch.h"

namespace packtrain {
namespace {

constexpr int kThreads = 256;
constexpr int kTile = 128;  // rows and columns
constexpr int kThreadRows = 4;
constexpr int kThreadColumns = 16;
constexpr int kColumnGroups = kTile / kThreadColumns;  // threads of a row
constexpr int kChunk = 16;                             // codes of one store
constexpr int kChunks = kTile / kChunk;
static_assert(kTile / kThreadRows * kColumnGroups == kThreads, "a thread has one part of a tile");
static_assert(kChunks == kColumnGroups, "each column group has a permutation of the chunks");

// A vector is 16 bytes.
constexpr int kAmaxVectors = 4;  // that a thread has in flight

__device__ std::uint32_t block_max(std::uint32_t value) {
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

template <typename T>
__global__ void __launch_bounds__(kThreads)
    fp8_amax_kernel(const uint4* vectors, std::int64_t num_vectors, std::uint32_t* partials) {
  WordMax<T> most;
  const std::int64_t stride = std::int64_t{gridDim.x} * kThreads;
  std::int64_t at = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  for (; at + (kAmaxVectors - 1) * stride < num_vectors; at += kAmaxVectors * stride) {
    uint4 loaded[kAmaxVectors];
#pragma unroll
    for (int i = 0; i < kAmaxVectors; ++i) loaded[i] = vectors[at + i * stride];
#pragma unroll
    for (const uint4& one : loaded) {
      most.add(one.x), most.add(one.y), most.add(one.z), most.add(one.w);
    }
  }
  for (; at < num_vectors; at += stride) {
    const uint4 one = vectors[at];
    most.add(one.x), most.add(one.y), most.add(one.z), most.add(one.w);
  }
  const std::uint32_t bits = block_max(most.bits());
  if (threadIdx.x == 0) partials[blockIdx.x] = bits;
}

// Two numbers to two codes, the first in the lower byte.
template <Fp8Format kFormat>
__device__ std::uint32_t encode_pair(float first, float second) {
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
  template <Fp8Format kFormat>
  __device__ void encode(float multiplier, std::uint32_t (&codes)[4]) const {
    float x[kThreadColumns];
#pragma unroll
    for (int v = 0; v < kCount; ++v) {
      float part[kVec];
      device::unpack(vectors[v], part);
#pragma unroll
      for (int i = 0; i < kVec; ++i) x[v * kVec + i] = part[i] * multiplier;
    }
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      codes[w] = encode_pair<kFormat>(x[4 * w], x[4 * w + 1]) |
                 encode_pair<kFormat>(x[4 * w + 2], x[4 * w + 3]) << 16U;
    }
  }
};

// Row i of 4 x 4 codes to column i.
__device__ void transpose(std::uint32_t (&words)[4]) {
  const std::uint32_t low01 = __byte_perm(words[0], words[1], 0x5140);
  const std::uint32_t high01 = __byte_perm(words[0], words[1], 0x7362);
  const std::uint32_t low23 = __byte_perm(words[2], words[3], 0x5140);
  const std::uint32_t high23 = __byte_perm(words[2], words[3], 0x7362);
  words[0] = __byte_perm(low01, low23, 0x5410);
  words[1] = __byte_perm(low01, low23, 0x7632);
  words[2] = __byte_perm(high01, high23, 0x5410);
  words[3] = __byte_perm(high01, high23, 0x7632);
}

// The multiplier of the tensor. One block writes the scale.
__device__ float find_scale(const Fp8CastArguments& a) {
  std::uint32_t bits = 0;
  for (int i = threadIdx.x; i < a.amax.count; i += kThreads) bits = max(bits, a.amax.bits[i]);
  bits = block_max(bits);
  const fp8::ScaleBits scale = fp8::scale_of(bits, a.format);
  if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0) {
    a.scale[0] = __uint_as_float(scale.factor);
    a.scale[1] = __uint_as_float(bits);
  }
  return __uint_as_float(scale.multiplier);
}

struct Place {
  int row_group;     // of 4 rows of the tile
  int column_group;  // of 16 columns
};

__device__ Place place_of(int thread) {
  return {thread / kColumnGroups, thread % kColumnGroups};
}

// Word of the tile in shared memory that has rows 4 * row_group up to + 3 of a column.
__device__ int word_of(int column, int row_group) {
  const int chunk = row_group / 4 ^ column / kThreadColumns;
  return column * (kTile / 4) + chunk * 4 + row_group % 4;
}

__device__ void store_columns(const Fp8CastArguments& a, const std::uint32_t* tile,
                              std::int64_t first_row, std::int64_t first_column) {
#pragma unroll
  for (int i = 0; i < kTile * kChunks / kThreads; ++i) {
    const int chunk = static_cast<int>(threadIdx.x) % kChunks;
    const int column = i * (kThreads / kChunks) + static_cast<int>(threadIdx.x) / kChunks;
    const std::int64_t row = first_row + chunk * kChunk;
    if (first_column + column >= a.num_columns || row >= a.padded_rows) continue;
    *reinterpret_cast<uint4*>(a.columns + (first_column + column) * a.padded_rows + row) =
        *reinterpret_cast<const uint4*>(tile + word_of(column, chunk * 4));
  }
}

// Blocks of the grid's first dimension are tiles of rows. They run from the last to the first,
// because the pass before it read the last ones last.
template <typename T, Fp8Format kFormat, bool kColumns>
__global__ void __launch_bounds__(kThreads) fp8_cast_kernel(const Fp8CastArguments a) {
  __shared__ __align__(16) std::uint32_t tile[kColumns ? kTile * kTile / 4 : 4];
  const Place place = place_of(static_cast<int>(threadIdx.x));
  const std::int64_t first_row = std::int64_t{gridDim.x - 1 - blockIdx.x} * kTile;
  const std::int64_t first_column = std::int64_t{gridDim.y - 1 - blockIdx.y} * kTile;
  const std::int64_t column = first_column + place.column_group * kThreadColumns;
  const bool has_column = column < a.num_columns;
  const std::int64_t row = first_row + place.row_group * kThreadRows;
  const std::int64_t at = row * a.num_columns + column;
  RowVectors<T> rows[kThreadRows];
#pragma unroll
  for (int r = 0; r < kThreadRows; ++r) {
    if (has_column && row + r < a.num_rows) {
      rows[r].load(static_cast<const T*>(a.values) + at + r * a.num_columns);
    }
  }
  const float multiplier = find_scale(a);
  std::uint32_t codes[kThreadRows][4];
#pragma unroll
  for (int r = 0; r < kThreadRows; ++r) {
    const bool exists = has_column && row + r < a.num_rows;
    // Zeros, and not zeros times NaN, after the last row.
    rows[r].template encode<kFormat>(exists ? multiplier : 1, codes[r]);
    if (a.rows == nullptr || !exists) continue;
    *reinterpret_cast<uint4*>(a.rows + at + r * a.num_columns) =
        make_uint4(codes[r][0], codes[r][1], codes[r][2], codes[r][3]);
  }
  if constexpr (kColumns) {
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      std::uint32_t block[4] = {codes[0][w], codes[1][w], codes[2][w], codes[3][w]};
      transpose(block);
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        tile[word_of(place.column_group * kThreadColumns + 4 * w + c, place.row_group)] = block[c];
      }
    }
    __syncthreads();
    store_columns(a, tile, first_row, first_column);
  }
}

template <typename T, Fp8Format kFormat>
void launch_cast(const Fp8CastArguments& a, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>((a.num_rows + kTile - 1) / kTile),
                  static_cast<unsigned>((a.num_columns + kTile - 1) / kTile));
  if (a.columns != nullptr) {
    fp8_cast_kernel<T, kFormat, true><<<grid, kThreads, 0, stream>>>(a);
  } else {
    fp8_cast_kernel<T, kFormat, false><<<grid, kThreads, 0, stream>>>(a);
  }
}

template <typename T>
void launch_cast(const Fp8CastArguments& a, cudaStream_t stream) {
  if (a.format == Fp8Format::kE4M3) {
    launch_cast<T, Fp8Format::kE4M3>(a, stream);
  } else {
    launch_cast<T, Fp8Format::kE5M2>(a, stream);
  }
}

std::int64_t num_vectors(std::int64_t numel, DataType dtype) {
  return numel * static_cast<std::int64_t>(size_of(dtype)) / 16;
}

}  // namespace

int num_fp8_amax_partials(std::int64_t numel) {
  const std::int64_t blocks = (numel / 8 + kThreads - 1) / kThreads;
  return static_cast<int>(std::min<std::int64_t>(blocks, kMaxFp8AmaxPartials));
}

void launch_fp8_amax(const Fp8AmaxArguments& a, void* stream) {
  const int blocks = num_fp8_amax_partials(a.numel);
  const auto* vectors = static_cast<const uint4*>(a.values);
  const std::int64_t count = num_vectors(a.numel, a.dtype);
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  if (a.dtype == DataType::kBFloat16) {
    fp8_amax_kernel<__nv_bfloat16>
        <<<blocks, kThreads, 0, cuda_stream>>>(vectors, count, a.partials);
  } else {
    fp8_amax_kernel<float><<<blocks, kThreads, 0, cuda_stream>>>(vectors, count, a.partials);
  }
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

void launch_fp8_cast(const Fp8CastArguments& arguments, void* stream) {
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  if (arguments.dtype == DataType::kBFloat16) {
    launch_cast<__nv_bfloat16>(arguments, cuda_stream);
  } else {
    launch_cast<float>(arguments, cuda_stream);
  }
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace packtrain
