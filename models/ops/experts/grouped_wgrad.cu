// Grouped weight gradient. A block computes tiles of 128 x 256 with the schedule Cooperative. The
// two blocks of a cluster have tiles one below the other. Each one copies half of the right operand
// to both by multicast.
#include <cuda_bf16.h>

#include <algorithm>

#include "models/ops/cuda/hopper/cooperative.cuh"
#include "models/ops/cuda/launch.h"
#include "models/ops/experts/grouped_wgrad_launch.h"
#include "models/ops/experts/grouped_wgrad_tile.cuh"

namespace packtrain {
namespace {

using device::GradientTile;

constexpr int kBox = 64;  // columns of a TMA box: 128 bytes

// Gives a block its tiles. Clusters that run at the same time work on a panel 8 clusters high, so
// that their operands stay in L2.
class GradientTileScheduler {
 public:
  __device__ explicit GradientTileScheduler(const GroupedWgradArguments& a)
      : a_(a),
        high_((a.num_left + kClusterRows - 1) / kClusterRows),
        wide_((a.num_right + GradientTile::kRight - 1) / GradientTile::kRight),
        next_(device::first_cluster_tile()) {}

  __device__ bool next(GradientTile& tile) {
    const int of_group = high_ * wide_;
    if (next_ >= of_group * a_.num_groups) return false;
    const int within = next_ % of_group;
    const int top = within / (kPanel * wide_) * kPanel;
    const int height = min(kPanel, high_ - top);
    const int in_panel = within - top * wide_;
    tile.group = next_ / of_group;
    tile.left = (top + in_panel % height) * kClusterRows +
                device::block_rank_in_cluster() * GradientTile::kLeft;
    tile.right = in_panel / height * GradientTile::kRight;
    tile.begin = tile.group == 0 ? 0 : a_.ends[tile.group - 1];
    tile.end = a_.ends[tile.group];
    tile.num_stages = (tile.end - tile.begin + device::kStageDepth - 1) / device::kStageDepth;
    if (!a_.target.accumulate) tile.num_stages = max(1, tile.num_stages);
    next_ += device::num_clusters();
    return true;
  }

 private:
  static constexpr int kPanel = 8;
  static constexpr int kClusterRows = device::kClusterSize * GradientTile::kLeft;

  const GroupedWgradArguments& a_;
  int high_;
  int wide_;
  int next_;
};

template <typename G, bool kFours>
class WeightGradient {
 public:
  static constexpr int kRows = GradientTile::kLeft;
  static constexpr int kColumns = GradientTile::kRight;
  static constexpr device::Major kLeft = device::Major::kMN;
  static constexpr device::Major kRight = device::Major::kMN;
  using Arguments = GroupedWgradArguments;
  using Tile = GradientTile;
  using TileScheduler = GradientTileScheduler;
  using Stage = device::Stage<WeightGradient>;
  struct EpilogueStorage {};

  static device::Operands operands(const Arguments& a) {
    constexpr int kDepth = device::kStageDepth;
    return {
        make_bf16_tensor_map(a.left, {a.num_rows, a.num_left, a.left_stride}, {kDepth, kBox}),
        make_bf16_tensor_map(a.right, {a.num_rows, a.num_right, a.right_stride}, {kDepth, kBox})};
  }

  __device__ static void copy(const device::Operands& operands, const Arguments& /*a*/,
                              const Tile& tile, int i, Stage& stage, const device::Barrier& full) {
    constexpr int kShare = kColumns / kBox / device::kClusterSize;  // boxes of the right operand
    const int rank = device::block_rank_in_cluster();
    const int row = tile.begin + i * device::kStageDepth;
    for (int b = 0; b < kRows / kBox; ++b) {
      device::tma_load_2d(operands.left, tile.left + b * kBox, row,
                          stage.left + b * device::kBoxNumel, full);
    }
    for (int b = rank * kShare; b < (rank + 1) * kShare; ++b) {
      device::tma_load_2d_multicast(operands.right, tile.right + b * kBox, row,
                                    stage.right + b * device::kBoxNumel, full,
                                    (1 << device::kClusterSize) - 1);
    }
  }

  __device__ WeightGradient(const Arguments& a, const Tile& tile) : a_(a), tile_(tile) {
    if (kFours && a.target.accumulate) device::fetch_tile<G>(tile, a);
  }

  // The last stage of a group may have rows of the next group.
  __device__ void prepare(Stage& stage, int i) const {
    const int num_rows = tile_.end - tile_.begin - i * device::kStageDepth;
    if (num_rows < device::kStageDepth) clear_rows(stage, num_rows);
  }

  __device__ static constexpr int num_steps(int /*i*/) { return device::kStageSteps; }

  __device__ void begin() {
    if constexpr (kFours) columns_.begin(tile_, a_);
  }

  __device__ void write(const device::TileAccumulator<kRows / 2, kColumns>& sums,
                        EpilogueStorage& /*memory*/) {
    if constexpr (kFours) {
      columns_.write(sums.parts[0]);
    } else {
      device::store_scalars<G>(tile_, sums.parts[0], a_);
    }
  }
  __device__ static void finish() {}

 private:
  // Zeroes the rows of a stage from `begin` on. Zeros in one operand alone are not enough, because
  // NaN times zero is NaN. The swizzle moves 16-byte words only inside a row, so whole rows need no
  // address conversion. Then fence.proxy.async and the barrier make these generic writes visible to
  // the wgmma of all consumer warps.
  __device__ static void clear_rows(Stage& stage, int begin) {
    constexpr int kRuns = device::kBoxNumel * sizeof(__nv_bfloat16) / sizeof(uint4);  // of a box
    constexpr int kRowRuns = kRuns / device::kStageDepth;
    constexpr int kBoxes = sizeof(Stage) / device::kBoxBytes;
    auto* const boxes = reinterpret_cast<uint4(*)[kRuns]>(&stage);
    for (int i = begin * kRowRuns + threadIdx.x % 128; i < kRuns; i += 128) {
      for (int b = threadIdx.x / 128 - 1; b < kBoxes; b += 2) boxes[b][i] = uint4{};
    }
    device::fence_proxy_async();
    device::cooperative_sync();
  }

  const Arguments& a_;
  Tile tile_;
  device::FourColumns<G> columns_;
};

template <typename G, bool kFours>
void launch_kernel(const GroupedWgradArguments& a, cudaStream_t stream) {
  using Mainloop = WeightGradient<G, kFours>;
  launch_gemm<device::Cooperative<Mainloop>>(Mainloop::operands(a), a, stream);
}

template <typename G>
void launch_type(const GroupedWgradArguments& a, cudaStream_t stream) {
  a.num_right % 8 == 0 && can_vectorize(a.num_right, sizeof(G), a.target.grad)
      ? launch_kernel<G, true>(a, stream)
      : launch_kernel<G, false>(a, stream);
}

}  // namespace

void launch_grouped_wgrad(const GroupedWgradArguments& arguments, void* stream) {
  if (arguments.num_groups == 0 || arguments.num_left == 0 || arguments.num_right == 0) return;
  const auto on = static_cast<cudaStream_t>(stream);
  arguments.target.dtype == DataType::kBFloat16 ? launch_type<__nv_bfloat16>(arguments, on)
                                                : launch_type<float>(arguments, on);
}

}  // namespace packtrain
