#include "models/ops/activation/evaluate.cuh"
#include "models/ops/cuda/vector.cuh"
#include "models/ops/experts/grouped_glu_gemm_tiles.cuh"

namespace packtrain {
namespace {

using device::RowsTile;

// A tile has the same columns of gates and of ups, so that one thread holds both in its
// accumulators.
template <ActivationKind kKind>
class GatedForward {
 public:
  static constexpr int kRows = device::RowsTileScheduler::kRows;
  static constexpr int kColumns = 192;
  static constexpr device::Major kLeft = device::Major::kK;
  static constexpr device::Major kRight = device::Major::kK;
  using Arguments = GroupedGluGemmArguments;
  using Tile = RowsTile;
  using Stage = device::Stage<GatedForward>;

  struct TileScheduler : device::RowsTileScheduler {
    __device__ explicit TileScheduler(const Arguments& a)
        : device::RowsTileScheduler(a, (a.inner + kK - 1) / kK) {}
  };

  static device::Operands operands(const Arguments& a) {
    const std::int64_t num_rows = std::int64_t{a.num_groups} * 2 * a.inner;
    return {device::rows_map(a), make_bf16_tensor_map(a.weight, {num_rows, a.depth, a.depth},
                                                      {kK, device::kStageDepth})};
  }

  // A box may extend beyond the gates or the ups. Its extra columns are never stored.
  __device__ static void copy(const device::Operands& operands, const Arguments& a,
                              const Tile& tile, int i, Stage& stage, const device::Barrier& full) {
    const int depth = i * device::kStageDepth;
    const int gate = tile.group * 2 * a.inner + tile.column * kK;
    device::copy_rows(operands.left, tile, depth, stage.left, full);
    device::tma_load_2d(operands.right, depth, gate, stage.right, full);
    device::tma_load_2d(operands.right, depth, gate + a.inner,
                        stage.right + kK * device::kStageDepth, full);
  }

  __device__ GatedForward(const Arguments& a, const Tile& tile) : a_(a), tile_(tile) {}

  __device__ void prepare(Stage& /*stage*/, int /*i*/) const {}
  __device__ static constexpr int num_steps(int /*i*/) { return device::kStageSteps; }
  __device__ void begin() {}

  __device__ void write(const device::TileAccumulator<kRows, kColumns>& sums) const {
    write_rows<0>(sums.parts[0], 0);
    write_rows<1>(sums.parts[0], 0);
    write_rows<0>(sums.parts[1], 1);
    write_rows<1>(sums.parts[1], 1);
  }

 private:
  static constexpr int kK = kColumns / 2;

  template <int kLower>
  __device__ __forceinline__ void write_rows(const device::Accumulator<kColumns>& sums,
                                             int part) const {
    const int row = device::row_of_thread(tile_, part) + kLower * 8;
#pragma unroll
    for (int i = 0; i < kK / 32; ++i) store_vec(sums.values + 16 * i + 2 * kLower, row, i);
  }

  // Converts the fragments of 32 columns: a thread holds two of each 8 columns, and stores 8
  // contiguous ones.
  __device__ __forceinline__ void store_vec(const float* values, int row, int i) const {
    std::uint32_t gates[4];
    std::uint32_t ups[4];
    std::uint32_t y[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float* const gate = values + 4 * j;
      const float* const up = gate + kK / 2;
      gates[j] = device::bfloat16_pair(gate[0], gate[1]);
      ups[j] = device::bfloat16_pair(up[0], up[1]);
      y[j] = device::bfloat16_pair(activated(gates[j] << 16, ups[j] << 16),
                                   activated(gates[j], ups[j]));
    }
    device::shuffle_words(gates);
    device::shuffle_words(ups);
    device::shuffle_words(y);
    const int column = tile_.column * kK + 32 * i + threadIdx.x % 4 * 8;
    if (row >= tile_.end || column >= a_.inner) return;
    __nv_bfloat16* const x =
        static_cast<__nv_bfloat16*>(a_.x) + std::int64_t{row} * 2 * a_.inner + column;
    write_words(gates, x);
    write_words(ups, x + a_.inner);
    write_words(y, static_cast<__nv_bfloat16*>(a_.y) + std::int64_t{row} * a_.inner + column);
  }

  // Computes from the rounded bfloat16 values, as backward does, which reads the stored x. A value
  // is the upper half of a word.
  __device__ static float activated(std::uint32_t gate, std::uint32_t up) {
    const float z = __uint_as_float(gate & 0xffff0000U);
    const float u = __uint_as_float(up & 0xffff0000U);
    return device::evaluate<kKind>(z).value * device::evaluate_up<kKind>(u).value;
  }

  __device__ static void write_words(const std::uint32_t (&words)[4], __nv_bfloat16* to) {
    *reinterpret_cast<uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
  }

  const Arguments& a_;
  Tile tile_;
};

}  // namespace

void launch_grouped_glu_gemm_forward(const GroupedGluGemmArguments& arguments, void* stream) {
  launch_gated<GatedForward>(arguments, stream);
}

}  // namespace packtrain
