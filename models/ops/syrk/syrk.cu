// Symmetric products. A block computes tiles of 128 x 128 on and below the diagonal with the
// schedule PingPong. It writes them as they are, and transposed above the diagonal.
#include <cuda_bf16.h>

#include <algorithm>

#include "models/ops/cuda/hopper/fragment.cuh"
#include "models/ops/cuda/hopper/ping_pong.cuh"
#include "models/ops/syrk/syrk_launch.h"
#include "models/ops/syrk/syrk_tiles.cuh"

namespace packtrain {
namespace {

constexpr int kBox = 64;  // rows and columns of a TMA box

// Transposes the 8 x 8 matrix of which this thread holds row lane / 4, columns 2 (lane % 4) and the
// next one.
__device__ std::uint32_t transposed_matrix(std::uint32_t word) {
  std::uint32_t transposed = 0;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(transposed) : "r"(word));
  return transposed;
}

template <device::Major kMajor>
class SymmetricProduct {
 public:
  static constexpr int kRows = kSyrkTile;
  static constexpr int kColumns = kSyrkTile;
  static constexpr device::Major kLeft = kMajor;
  static constexpr device::Major kRight = kMajor;
  using Arguments = SyrkArguments;
  using Tile = device::SyrkTile;
  using TileScheduler = device::SyrkTileScheduler;
  using Stage = device::Stage<SymmetricProduct>;

  static device::Operands operands(const Arguments& a) {
    const std::int64_t rows = kIsTransposed ? a.k : a.n;
    const std::int64_t columns = kIsTransposed ? a.n : a.k;
    const CUtensorMap map =
        make_bf16_tensor_map(a.x, {a.count * rows, columns, columns}, {kBox, kBox});
    return {map, map};
  }

  __device__ static void copy(const device::Operands& operands, const Arguments& a,
                              const Tile& tile, int i, Stage& stage, const device::Barrier& full) {
    const int rank = device::block_rank_in_cluster();
    const int depth = i * device::kStageDepth;
    for (int b = 0; b < kRows / kBox; ++b) {
      const Place left = place_of(a, tile, tile.row + b * kBox, depth);
      device::tma_load_2d(operands.left, left.column, left.row, stage.left + b * device::kBoxNumel,
                          full);
      const Place right = place_of(a, tile, tile.column + b * kBox, depth);
      __nv_bfloat16* const to = stage.right + b * device::kBoxNumel;
      if (!tile.shares_right) {
        device::tma_load_2d(operands.right, right.column, right.row, to, full);
      } else if (b == rank) {
        device::tma_load_2d_multicast(operands.right, right.column, right.row, to, full,
                                      (1 << device::kClusterSize) - 1);
      }
    }
  }

  __device__ SymmetricProduct(const Arguments& a, const Tile& tile) : a_(a), tile_(tile) {}

  __device__ void prepare(Stage& /*stage*/, int /*i*/) const {}
  __device__ static constexpr int num_steps(int /*i*/) { return device::kStageSteps; }
  __device__ void begin() {}

  __device__ void write(const device::TileAccumulator<kRows, kColumns>& sums) const {
    if (!tile_.is_written) return;
#pragma unroll
    for (int part = 0; part < kRows / device::kMmaRows; ++part) {
      // The first of the 16 rows of this warp.
      const int row = tile_.row + part * device::kMmaRows +
                      static_cast<int>(threadIdx.x) % device::kWarpGroupThreads / 32 * 16;
#pragma unroll
      for (int i = 0; i < kColumns / 32; ++i) {
        write_columns(sums.parts[part].values + 16 * i, row, tile_.column + 32 * i);
      }
    }
  }

 private:
  static constexpr bool kIsTransposed = kMajor == device::Major::kMN;

  struct Place {
    int row;
    int column;
  };

  // The box of rows of the product from `at` on, and of K from `depth` on. In K-major matrices the
  // box may have rows of the next matrix, whose products are not written.
  __device__ static Place place_of(const Arguments& a, const Tile& tile, int at, int depth) {
    return kIsTransposed ? Place{tile.matrix * a.k + depth, at}
                         : Place{tile.matrix * a.n + at, depth};
  }

  __device__ std::int64_t offset(int row, int column) const {
    return (std::int64_t{tile_.matrix} * a_.n + row) * a_.n + column;
  }

  // 16 rows and 32 columns of a warp, from (row, column) on: four accumulators of each 8 columns.
  __device__ __forceinline__ void write_columns(const float* values, int row, int column) const {
    std::uint32_t words[2][4];  // upper and lower eight rows, by eight columns
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      std::uint32_t addend[4] = {};
      read_addend(row + 8 * half, column, addend);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float* const two = values + 4 * j + 2 * half;
        words[half][j] =
            device::bfloat16_pair(a_.scale * two[0] + device::low_bfloat16(addend[j]),
                                  a_.scale * two[1] + device::high_bfloat16(addend[j]));
      }
    }
    if (tile_.row != tile_.column) write_transposed(words, row, column);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      device::shuffle_words(words[half]);
      store(words[half], row + 8 * half + lane() / 4, column + lane() % 4 * 8);
    }
  }

  // The words of the addend that belong to this thread's accumulators. All threads call it.
  __device__ void read_addend(int top, int left, std::uint32_t (&words)[4]) const {
    if (a_.addend == nullptr) return;
    const int row = top + lane() / 4;
    const int column = left + lane() % 4 * 8;
    if (row < a_.n && column < a_.n) {
      const auto* const from = static_cast<const __nv_bfloat16*>(a_.addend) + offset(row, column);
      const uint4 eight = *reinterpret_cast<const uint4*>(from);
      words[0] = eight.x;
      words[1] = eight.y;
      words[2] = eight.z;
      words[3] = eight.w;
    }
    device::shuffle_words(words);
  }

  // Two groups of eight columns at a time become rows of 16 elements each.
  __device__ void write_transposed(const std::uint32_t (&words)[2][4], int row, int column) const {
#pragma unroll
    for (int j = 0; j < 4; j += 2) {
      std::uint32_t turned[4];
#pragma unroll
      for (int m = 0; m < 4; ++m) turned[m] = transposed_matrix(words[m % 2][j + m / 2]);
      device::shuffle_words(turned);
      store(turned, column + 8 * (j + lane() % 4 / 2) + lane() / 4, row + lane() % 2 * 8);
    }
  }

  __device__ void store(const std::uint32_t (&words)[4], int row, int column) const {
    if (row >= a_.n || column >= a_.n) return;
    auto* const to = static_cast<__nv_bfloat16*>(a_.out) + offset(row, column);
    *reinterpret_cast<uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
  }

  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }

  const Arguments& a_;
  Tile tile_;
};

template <device::Major kMajor>
void launch(const SyrkArguments& a, cudaStream_t stream) {
  using Mainloop = SymmetricProduct<kMajor>;
  launch_gemm<device::PingPong<Mainloop>>(Mainloop::operands(a), a, stream);
}

std::int64_t rounds(std::int64_t tiles, std::int64_t at_a_time) {
  return (tiles + at_a_time - 1) / at_a_time;
}

}  // namespace

std::int64_t syrk_rounds(std::int64_t count, std::int64_t n, int num_multiprocessors) {
  const int pairs = syrk_pairs(syrk_tiles_high(static_cast<int>(n)));
  return rounds(count * pairs, std::max(num_multiprocessors / device::kClusterSize, 1));
}

std::int64_t gemm_rounds(std::int64_t count, std::int64_t n, int num_multiprocessors) {
  const std::int64_t high = syrk_tiles_high(static_cast<int>(n));
  return rounds(count * high * high, num_multiprocessors);
}

void launch_syrk(const SyrkArguments& arguments, void* stream) {
  if (arguments.count == 0 || arguments.n == 0) return;
  const auto on = static_cast<cudaStream_t>(stream);
  arguments.transposed ? launch<device::Major::kMN>(arguments, on)
                       : launch<device::Major::kK>(arguments, on);
}

}  // namespace packtrain
