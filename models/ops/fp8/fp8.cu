// Both kernels are bound by memory. fp8_tile.cuh has how the cast lays out its work.
#include <algorithm>

#include "framework/device/cuda/check.h"
#include "models/ops/fp8/fp8_launch.h"
#include "models/ops/fp8/fp8_tile.cuh"

namespace packtrain {
namespace {

using namespace fp8_tile;

// A vector is 16 bytes.
constexpr int kAmaxVectors = 4;  // that a thread has in flight

template <typename T>
__global__ void __launch_bounds__(kThreads)
    fp8_amax_kernel(const uint4* vectors, std::int64_t num_vectors, std::uint32_t* partials) {
  WordMax<T> most;
  vectors += blockIdx.y * num_vectors;
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
  if (threadIdx.x == 0) partials[blockIdx.y * gridDim.x + blockIdx.x] = bits;
}

template <typename T, Fp8Format kFormat, bool kColumns>
__global__ void __launch_bounds__(kThreads) fp8_cast_kernel(const Fp8CastArguments a) {
  __shared__ __align__(16) std::uint32_t tile[kColumns ? kTile * kTile / 4 : 4];
  const TileOrigin origin = tile_origin();
  const std::int64_t matrix = blockIdx.z;
  ThreadPart<T> part;
  part.load(static_cast<const T*>(a.values) + matrix * a.num_rows * a.num_columns, a.num_rows,
            a.num_columns, origin.row, origin.column);
  float* scale = a.scale == nullptr ? nullptr : a.scale + matrix * a.scale_stride;
  const float multiplier =
      find_multiplier({a.amax.bits + matrix * a.amax_stride, a.amax.count}, a.format, scale);
  std::uint32_t codes[kThreadRows][4];
#pragma unroll
  for (int r = 0; r < kThreadRows; ++r) {
    const bool exists = part.has_columns && part.row + r < a.num_rows;
    // Zeros, and not zeros times NaN, after the last row.
    part.rows[r].template encode<kFormat>(exists ? multiplier : 1, codes[r]);
    if (a.rows == nullptr || !exists) continue;
    store_row(codes[r],
              a.rows + (matrix * a.num_rows + part.row + r) * a.num_columns + part.column);
  }
  if constexpr (kColumns) {
    enter_columns(codes, tile);
    __syncthreads();
    store_columns(
        {a.columns + matrix * a.num_columns * a.padded_rows, a.num_columns, a.padded_rows}, tile,
        origin);
  }
}

template <typename T, Fp8Format kFormat>
void launch_cast(const Fp8CastArguments& a, cudaStream_t stream) {
  dim3 grid = grid_of_tiles(a.num_rows, a.num_columns);
  grid.z = static_cast<unsigned>(a.num_matrices);
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
  const dim3 blocks(static_cast<unsigned>(num_fp8_amax_partials(a.numel)),
                    static_cast<unsigned>(a.num_matrices));
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
