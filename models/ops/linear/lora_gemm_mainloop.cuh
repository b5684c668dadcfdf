// The collective mainloop of low-rank products (gemm_kernel.cuh), and its launch. The sum runs over
// the dense operands and then over the ranks of low-rank modules. The two blocks of a cluster have
// tiles one below the other. Each one copies half of the right operand to both by multicast.
#pragma once

#include "models/ops/linear/lora_gemm_tile.cuh"

namespace packtrain {
namespace device {

constexpr int kBox = 64;  // columns of a TMA box: 128 bytes

// `kLeftMajor`, `kRightMajor`: of the dense operands. 8-bit floats are copied as pairs, which have
// the bytes of bfloat16. Low-rank operands are bfloat16, and K-major where the dense ones are
// 8-bit.
template <Major kLeftMajor, Major kRightMajor>
class LoraGemm {
 public:
  static constexpr int kRows = LoraTile::kRows;
  static constexpr int kColumns = LoraTile::kColumns;
  static constexpr Major kLeft = kLeftMajor;
  static constexpr Major kRight = kRightMajor;
  using Arguments = LoraGemmKernelArguments;
  using Tile = LoraTile;
  using TileScheduler = LoraTileScheduler;
  using Stage = Stage<LoraGemm>;
  using EpilogueStorage = LoraEpilogueStorage;

  // Maps of a left and of a right operand, dense or of a module.
  static CUtensorMap left_map(const void* left, const MatrixExtent& extent) {
    return make_bf16_tensor_map(left, extent, {kRows, kBox});
  }
  static CUtensorMap right_map(const void* right, const MatrixExtent& extent) {
    return make_bf16_tensor_map(right, extent, {kRight == Major::kMN ? kBox : kShare, kBox});
  }

  __device__ static void copy(const Operands& operands, const Arguments& a, const Tile& tile, int i,
                              Stage& stage, const Barrier& full) {
    if (i < tile.num_dense) {
      const int depth = i * kStageDepth;
      tma_load_2d(operands.left, depth, tile.row, stage.left, full);
      copy_right(operands.right, depth, tile.column, stage, full);
      return;
    }
    // Zeros fill what a module's matrix does not have: columns of other modules, and the rest of
    // the stage's depth.
    const LowStage low = low_stage(a, tile, i);
    const LoraGemmModule& module = a.modules[low.module];
    const int depth = low.chunk * kStageDepth;
    tma_load_2d(a.low_map, module.low_begin + depth, tile.row, stage.left, full);
    copy_right(a.module_maps[low.module], depth, tile.column - module.begin, stage, full);
  }

  __device__ LoraGemm(const Arguments& a, const Tile& tile)
      : a_(a), tile_(tile), epilogue_(a, tile) {}

  __device__ void prepare(Stage& /*stage*/, int /*i*/) const {}

  // A rank of 16 is one step: the rest of its stage is not multiplied.
  __device__ int num_steps(int i) const {
    if (i < tile_.num_dense) return kStageSteps;
    const LowStage low = low_stage(a_, tile_, i);
    const int depth = a_.modules[low.module].rank - low.chunk * kStageDepth;
    return min(kStageSteps, (depth + kStepDepth - 1) / kStepDepth);
  }

  __device__ void begin() { epilogue_.begin(); }
  __device__ void write(TileAccumulator<kRows / 2, kColumns>& sums, EpilogueStorage& memory) {
    epilogue_.write(sums.parts[0], memory);
  }
  __device__ static void finish() { LoraEpilogue::finish(); }

 private:
  static constexpr int kShare = kColumns / kClusterSize;  // columns that a block copies

  __device__ static void copy_right(const CUtensorMap& map, int depth, int column, Stage& stage,
                                    const Barrier& full) {
    constexpr auto kBlocks = static_cast<std::uint16_t>((1 << kClusterSize) - 1);
    const int first = block_rank_in_cluster() * kShare;
    if constexpr (kRight != Major::kMN) {
      tma_load_2d_multicast(map, depth, column + first, stage.right + first * kStageDepth, full,
                            kBlocks);
    } else {
      for (int at = first; at < first + kShare; at += kBox) {
        tma_load_2d_multicast(map, column + at, depth, stage.right + at * kStageDepth, full,
                              kBlocks);
      }
    }
  }

  const Arguments& a_;
  Tile tile_;
  LoraEpilogue epilogue_;
};

}  // namespace device

// `depth` of 8-bit operands counts pairs.
template <typename Schedule>
void launch_low_rank_gemm(const LoraGemmArguments& arguments, void* stream) {
  using Mainloop = typename Schedule::Mainloop;
  constexpr bool kTransposed = Mainloop::kRight == device::Major::kMN;
  typename Mainloop::Arguments a{arguments, {}, {}, {}};
  const std::int64_t wide = kTransposed ? a.depth : a.width;  // rows of the right operand
  const std::int64_t deep = kTransposed ? a.width : a.depth;
  const device::Operands operands{Mainloop::left_map(a.left, {a.num_rows, a.depth, a.left_stride}),
                                  Mainloop::right_map(a.right, {wide, deep, a.right_stride})};
  if (a.num_modules > 0) {
    a.low_map = Mainloop::left_map(a.low, {a.num_rows, a.low_width, a.low_stride});
  }
  for (int m = 0; m < a.num_modules; ++m) {
    const LoraGemmModule& module = a.modules[m];
    const std::int64_t rows = kTransposed ? module.rank : module.num_columns;
    const std::int64_t columns = kTransposed ? module.num_columns : module.rank;
    a.module_maps[m] = Mainloop::right_map(module.right, {rows, columns, columns});
  }
  a.out_map = make_bf16_tensor_map(a.out, {a.num_rows, a.width, a.out_stride},
                                   {device::kMmaRows, device::kBox});
  launch_gemm<Schedule>(operands, a, static_cast<cudaStream_t>(stream));
}

}  // namespace packtrain
