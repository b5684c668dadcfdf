// Products whose sum runs over the dense operands and then over the ranks of low-rank modules. A
// block computes tiles of 128 x 256 with the schedule Cooperative. The two blocks of a cluster have
// tiles one below the other. Each one copies half of the right operand to both by multicast.
#include "models/ops/linear/lora_gemm_tile.cuh"

namespace packtrain {
namespace {

using device::LoraTile;
using device::Major;

constexpr int kBox = 64;  // columns of a TMA box: 128 bytes

template <Major kRightMajor>
class LoraGemm {
 public:
  static constexpr int kRows = LoraTile::kRows;
  static constexpr int kColumns = LoraTile::kColumns;
  static constexpr Major kLeft = Major::kK;
  static constexpr Major kRight = kRightMajor;
  using Arguments = device::LoraGemmKernelArguments;
  using Tile = LoraTile;
  using TileScheduler = device::LoraTileScheduler;
  using Stage = device::Stage<LoraGemm>;
  using EpilogueStorage = device::LoraEpilogueStorage;

  // Maps of a left and of a right operand, dense or of a module.
  static CUtensorMap left_map(const void* left, const MatrixExtent& extent) {
    return make_bf16_tensor_map(left, extent, {kRows, kBox});
  }
  static CUtensorMap right_map(const void* right, const MatrixExtent& extent) {
    return make_bf16_tensor_map(right, extent, {kRight == Major::kK ? kShare : kBox, kBox});
  }

  __device__ static void copy(const device::Operands& operands, const Arguments& a,
                              const Tile& tile, int i, Stage& stage, const device::Barrier& full) {
    if (i < tile.num_dense) {
      const int depth = i * device::kStageDepth;
      device::tma_load_2d(operands.left, depth, tile.row, stage.left, full);
      copy_right(operands.right, depth, tile.column, stage, full);
      return;
    }
    // Zeros fill what a module's matrix does not have: columns of other modules, and the rest of
    // the stage's depth.
    const device::LowStage low = device::low_stage(a, tile, i);
    const LoraGemmModule& module = a.modules[low.module];
    const int depth = low.chunk * device::kStageDepth;
    device::tma_load_2d(a.low_map, module.low_begin + depth, tile.row, stage.left, full);
    copy_right(a.module_maps[low.module], depth, tile.column - module.begin, stage, full);
  }

  __device__ LoraGemm(const Arguments& a, const Tile& tile)
      : a_(a), tile_(tile), epilogue_(a, tile) {}

  __device__ void prepare(Stage& /*stage*/, int /*i*/) const {}

  // A rank of 16 is one step: the rest of its stage is not multiplied.
  __device__ int num_steps(int i) const {
    if (i < tile_.num_dense) return device::kStageSteps;
    const device::LowStage low = device::low_stage(a_, tile_, i);
    const int depth = a_.modules[low.module].rank - low.chunk * device::kStageDepth;
    return min(device::kStageSteps, (depth + device::kStepDepth - 1) / device::kStepDepth);
  }

  __device__ void begin() { epilogue_.begin(); }
  __device__ void write(device::TileAccumulator<kRows / 2, kColumns>& sums,
                        EpilogueStorage& memory) {
    epilogue_.write(sums.parts[0], memory);
  }
  __device__ static void finish() { device::LoraEpilogue::finish(); }

 private:
  static constexpr int kShare = kColumns / device::kClusterSize;  // columns that a block copies

  __device__ static void copy_right(const CUtensorMap& map, int depth, int column, Stage& stage,
                                    const device::Barrier& full) {
    constexpr auto kBlocks = static_cast<std::uint16_t>((1 << device::kClusterSize) - 1);
    const int first = device::block_rank_in_cluster() * kShare;
    if constexpr (kRight == Major::kK) {
      device::tma_load_2d_multicast(map, depth, column + first,
                                    stage.right + first * device::kStageDepth, full, kBlocks);
    } else {
      for (int at = first; at < first + kShare; at += kBox) {
        device::tma_load_2d_multicast(map, column + at, depth,
                                      stage.right + at * device::kStageDepth, full, kBlocks);
      }
    }
  }

  const Arguments& a_;
  Tile tile_;
  device::LoraEpilogue epilogue_;
};

template <Major kRight>
void launch(const LoraGemmArguments& arguments, void* stream) {
  using Mainloop = LoraGemm<kRight>;
  constexpr bool kForward = kRight == Major::kK;
  typename Mainloop::Arguments a{arguments, {}, {}, {}};
  const std::int64_t wide = kForward ? a.width : a.depth;  // rows of the right operand
  const std::int64_t deep = kForward ? a.depth : a.width;
  const device::Operands operands{Mainloop::left_map(a.left, {a.num_rows, a.depth, a.left_stride}),
                                  Mainloop::right_map(a.right, {wide, deep, a.right_stride})};
  if (a.num_modules > 0) {
    a.low_map = Mainloop::left_map(a.low, {a.num_rows, a.low_width, a.low_stride});
  }
  for (int m = 0; m < a.num_modules; ++m) {
    const LoraGemmModule& module = a.modules[m];
    const std::int64_t rows = kForward ? module.num_columns : module.rank;
    const std::int64_t columns = kForward ? module.rank : module.num_columns;
    a.module_maps[m] = Mainloop::right_map(module.right, {rows, columns, columns});
  }
  a.out_map =
      make_bf16_tensor_map(a.out, {a.num_rows, a.width, a.out_stride}, {device::kMmaRows, kBox});
  launch_gemm<device::Cooperative<Mainloop>>(operands, a, static_cast<cudaStream_t>(stream));
}

}  // namespace

void launch_lora_gemm_forward(const LoraGemmArguments& arguments, void* stream) {
  launch<Major::kK>(arguments, stream);
}

void launch_lora_gemm_backward(const LoraGemmArguments& arguments, void* stream) {
  launch<Major::kMN>(arguments, stream);
}

}  // namespace packtrain
