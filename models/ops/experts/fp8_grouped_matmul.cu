// Grouped GEMM of 8-bit floats. A block computes tiles of 128 x 256 with the schedule Cooperative.
// The two blocks of a cluster have tiles one below the other. Each one copies half of the right
// operand to both by multicast. Tensor maps take two codes for a bfloat16.
#include "models/ops/cuda/hopper/cooperative.cuh"
#include "models/ops/cuda/hopper/fragment.cuh"
#include "models/ops/experts/fp8_grouped_matmul_launch.h"
#include "models/ops/experts/group_tiles.cuh"

namespace packtrain {
namespace {

constexpr int kCodesOfStage = 2 * device::kStageDepth;

template <device::Major kLeftCodes>
class Fp8GroupedMatmul {
 public:
  static constexpr int kRows = 128;  // 64 for each warp group
  static constexpr int kColumns = 256;
  static constexpr device::Major kLeft = kLeftCodes;
  static constexpr device::Major kRight = device::Major::kE4M3;
  using Arguments = Fp8GroupedMatmulArguments;
  using Tile = device::RowsTile;
  using Stage = device::Stage<Fp8GroupedMatmul>;
  struct EpilogueStorage {};

  using Scheduler =
      device::GroupTileScheduler<Arguments, kCodesOfStage, device::ClusterTiles::kSameColumns>;
  struct TileScheduler : Scheduler {
    __device__ explicit TileScheduler(const Arguments& a)
        : Scheduler(a, (a.num_columns + kColumns - 1) / kColumns) {}
  };

  static device::Operands operands(const Arguments& a) {
    const int depth = a.depth / 2;
    const std::int64_t num_columns = std::int64_t{a.num_groups} * a.num_columns;
    return {
        make_bf16_tensor_map(a.left, {a.num_rows, depth, depth}, {kRows, device::kStageDepth}),
        make_bf16_tensor_map(a.right, {num_columns, depth, depth}, {kShare, device::kStageDepth})};
  }

  // A box may extend beyond the matrix of the group. Its extra columns are never stored.
  __device__ static void copy(const device::Operands& operands, const Arguments& a,
                              const Tile& tile, int i, Stage& stage, const device::Barrier& full) {
    const int depth = i * device::kStageDepth;
    const int share = device::block_rank_in_cluster() * kShare;
    const int column = tile.group * a.num_columns + tile.column * kColumns + share;
    device::tma_load_2d(operands.left, depth, tile.row, stage.left, full);
    device::tma_load_2d_multicast(operands.right, depth, column,
                                  stage.right + share * device::kStageDepth, full,
                                  (1 << device::kClusterSize) - 1);
  }

  __device__ Fp8GroupedMatmul(const Arguments& a, const Tile& tile)
      : a_(a), tile_(tile), scale_(a.left_scale[0] * a.right_scales[tile.group * a.scale_stride]) {}

  __device__ void prepare(Stage& /*stage*/, int /*i*/) const {}
  __device__ static constexpr int num_steps(int /*i*/) { return device::kStageSteps; }
  __device__ void begin() {}

  __device__ void write(const device::TileAccumulator<kRows / 2, kColumns>& sums,
                        EpilogueStorage& /*memory*/) const {
    write_rows<0>(sums.parts[0]);
    write_rows<1>(sums.parts[0]);
  }
  __device__ static void finish() {}

 private:
  static constexpr int kShare = kColumns / device::kClusterSize;

  // A thread has two of each 8 columns of 32, and stores 8 contiguous ones.
  template <int kLower>
  __device__ __forceinline__ void write_rows(const device::Accumulator<kColumns>& sums) const {
    const int row = tile_.row + static_cast<int>(threadIdx.x) / 32 * 16 - 64 +
                    static_cast<int>(threadIdx.x) % 32 / 4 + kLower * 8;
#pragma unroll
    for (int i = 0; i < kColumns / 32; ++i) {
      std::uint32_t words[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float* const two = sums.values + 16 * i + 4 * j + 2 * kLower;
        words[j] = device::bfloat16_pair(two[0] * scale_, two[1] * scale_);
      }
      device::shuffle_words(words);
      const int column = tile_.column * kColumns + 32 * i + static_cast<int>(threadIdx.x) % 4 * 8;
      if (row >= tile_.end || column >= a_.num_columns) continue;
      __nv_bfloat16* const to =
          static_cast<__nv_bfloat16*>(a_.out) + std::int64_t{row} * a_.num_columns + column;
      *reinterpret_cast<uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
    }
  }

  const Arguments& a_;
  Tile tile_;
  float scale_;
};

template <device::Major kLeft>
void launch_kernel(const Fp8GroupedMatmulArguments& a, cudaStream_t stream) {
  using Mainloop = Fp8GroupedMatmul<kLeft>;
  launch_gemm<device::Cooperative<Mainloop>>(Mainloop::operands(a), a, stream);
}

}  // namespace

void launch_fp8_grouped_matmul(const Fp8GroupedMatmulArguments& arguments, void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  arguments.left_format == Fp8Format::kE4M3 ? launch_kernel<device::Major::kE4M3>(arguments, on)
                                            : launch_kernel<device::Major::kE5M2>(arguments, on);
}

}  // namespace packtrain
