// fp8_tile.cuh has how codes are transposed. Both kernels are bound by memory.
#include "framework/device/cuda/check.h"
#include "models/ops/fp8/fp8_arithmetic.h"
#include "models/ops/fp8/fp8_tile.cuh"
#include "models/ops/fp8/fp8_weight_launch.h"

namespace packtrain {
namespace {

using namespace fp8_tile;

__global__ void __launch_bounds__(kThreads) scales_kernel(const std::uint32_t* amax, float* scales,
                                                          std::int64_t count, std::int64_t stride) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= count) return;
  float* const scale = scales + i * stride;
  scale[0] = __uint_as_float(fp8::scale_of(amax[i], Fp8Format::kE4M3).factor);
  scale[1] = __uint_as_float(amax[i]);
}

__global__ void __launch_bounds__(kThreads)
    transpose_kernel(const std::uint8_t* codes, const ColumnsOf to) {
  __shared__ __align__(16) std::uint32_t tile[kTile * kTile / 4];
  const TileOrigin origin = tile_origin();
  ThreadPart<std::uint8_t> part;
  part.load(codes, to.padded_rows, to.num_columns, origin.row, origin.column);
  std::uint32_t words[kThreadRows][4];
#pragma unroll
  for (int r = 0; r < kThreadRows; ++r) {
#pragma unroll
    for (int w = 0; w < 4; ++w) words[r][w] = part.rows[r].word(w);
  }
  enter_columns(words, tile);
  __syncthreads();
  store_columns(to, tile, origin);
}

unsigned num_blocks(std::int64_t threads) {
  return static_cast<unsigned>((threads + kThreads - 1) / kThreads);
}

}  // namespace

void launch_fp8_weight_scales(const std::uint32_t* amax, float* scales, std::int64_t count,
                              std::int64_t stride, void* stream) {
  scales_kernel<<<num_blocks(count), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      amax, scales, count, stride);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

void launch_fp8_transpose(const std::uint8_t* codes, std::uint8_t* columns, std::int64_t num_rows,
                          std::int64_t num_columns, void* stream) {
  transpose_kernel<<<grid_of_tiles(num_rows, num_columns), kThreads, 0,
                     static_cast<cudaStream_t>(stream)>>>(codes, {columns, num_columns, num_rows});
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace packtrain
