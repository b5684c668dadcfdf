#include "models/ops/activation/evaluate.cuh"
#include "models/ops/cuda/vector.cuh"
#include "models/ops/experts/grouped_glu_gemm_tiles.cuh"

namespace packtrain {
namespace {

using device::RowsTile;

constexpr int kTileColumns = 128;

template <ActivationKind kKind>
class GatedBackward {
 public:
  static constexpr int kRows = device::RowsTileScheduler::kRows;
  static constexpr int kColumns = kTileColumns;
  static constexpr device::Major kLeft = device::Major::kK;
  static constexpr device::Major kRight = device::Major::kMN;
  using Arguments = GroupedGluGemmArguments;
  using Tile = RowsTile;
  using Stage = device::Stage<GatedBackward>;

  struct TileScheduler : device::RowsTileScheduler {
    __device__ explicit TileScheduler(const Arguments& a)
        : device::RowsTileScheduler(a, num_tiles(a)) {}
  };

  static device::Operands operands(const Arguments& a) {
    const std::int64_t num_rows = std::int64_t{a.num_groups} * a.depth;
    return {device::rows_map(a), make_bf16_tensor_map(a.weight, {num_rows, a.inner, a.inner},
                                                      {device::kStageDepth, kBox})};
  }

  __device__ static void copy(const device::Operands& operands, const Arguments& a,
                              const Tile& tile, int i, Stage& stage, const device::Barrier& full) {
    const int depth = i * device::kStageDepth;
    device::copy_rows(operands.left, tile, depth, stage.left, full);
    for (int b = 0; b < kColumns / kBox; ++b) {
      device::tma_load_2d(operands.right, tile.column * kColumns + b * kBox,
                          tile.group * a.depth + depth, stage.right + b * device::kBoxNumel, full);
    }
  }

  // Prefetches to L2 what the epilogue reads of x, so that its latency is hidden by the mainloop.
  __device__ GatedBackward(const Arguments& a, const Tile& tile) : a_(a), tile_(tile) {
    constexpr int kLine = 64;  // elements of a 128-byte line
    constexpr int kLines = kColumns / kLine;
    for (int i = threadIdx.x % 128; i < kRows * kLines * 2; i += 128) {
      const int row = tile.row + i / (2 * kLines);
      const int column = tile.column * kColumns + i % kLines * kLine;
      const bool is_up = i / kLines % 2 == 1;
      if (row < tile.end && column < a.inner) {
        device::prefetch_l2(x_of(row) + column + (is_up ? a.inner : 0));
      }
    }
  }

  __device__ void prepare(Stage& /*stage*/, int /*i*/) const {}
  __device__ static constexpr int num_steps(int /*i*/) { return device::kStageSteps; }

  // The first reads of x overlap with the last wgmma. The accumulators may not be used here.
  __device__ void begin() {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) read(i);
  }

  __device__ void write(const device::TileAccumulator<kRows, kColumns>& sums) {
    write_rows<0>(sums.parts[0]);
    write_rows<1>(sums.parts[0]);
    write_rows<2>(sums.parts[1]);
    write_rows<3>(sums.parts[1]);
  }

 private:
  static constexpr int kBox = 64;              // columns of a TMA box: 128 bytes
  static constexpr int kRuns = kColumns / 32;  // vectors of 8 columns that a thread has in a row
  static constexpr int kAhead = 5;             // vectors of x in flight

  struct GateAndUp {
    device::Vec<__nv_bfloat16, 8> gate;
    device::Vec<__nv_bfloat16, 8> up;
  };

  __device__ static int num_tiles(const Arguments& a) {
    return (a.inner + kColumns - 1) / kColumns;
  }

  // A thread has four rows, and 8 contiguous columns of every 32.
  __device__ int row_of(int b) const { return device::row_of_thread(tile_, b / 2) + b % 2 * 8; }
  __device__ int column_of(int i) const {
    return tile_.column * kColumns + 32 * i + threadIdx.x % 4 * 8;
  }
  __device__ bool is_inside(int b, int i) const {
    return row_of(b) < tile_.end && column_of(i) < a_.inner;
  }
  __device__ const __nv_bfloat16* x_of(int row) const {
    return static_cast<const __nv_bfloat16*>(a_.x) + std::int64_t{row} * 2 * a_.inner;
  }

  // Reads the n-th vector, counted over all rows of the thread.
  __device__ __forceinline__ void read(int n) {
    const int b = n / kRuns;
    const int i = n % kRuns;
    if (!is_inside(b, i)) return;
    const __nv_bfloat16* const x = x_of(row_of(b)) + column_of(i);
    runs_[n % kAhead].gate = device::load_vec<8>(x);
    runs_[n % kAhead].up = device::load_vec<8>(x + a_.inner);
  }

  // A ring of kAhead vectors: after one is used, its registers receive the next one to read.
  template <int kRow>
  __device__ __forceinline__ void write_rows(const device::Accumulator<kColumns>& sums) {
    float dot = 0;
#pragma unroll
    for (int i = 0; i < kRuns; ++i) {
      const int n = kRow * kRuns + i;
      float dy[8];
      gather(sums.values + 16 * i + 2 * (kRow % 2), dy);
      if (is_inside(kRow, i)) dot += store_vec(kRow, i, runs_[n % kAhead], dy);
      if (n + kAhead < 4 * kRuns) read(n + kAhead);
    }
    // The four threads of a row sum in a fixed order, and each tile has its own element of dots.
    // The result is deterministic.
    dot += __shfl_xor_sync(~0U, dot, 1);
    dot += __shfl_xor_sync(~0U, dot, 2);
    if (threadIdx.x % 4 == 0 && row_of(kRow) < tile_.end && tile_.column < num_tiles(a_)) {
      a_.dots[std::int64_t{row_of(kRow)} * num_tiles(a_) + tile_.column] = dot;
    }
  }

  // Collects 8 contiguous columns. In the fragment of 32 columns this thread has two of each 8.
  __device__ static void gather(const float* sums, float (&to)[8]) {
    std::uint32_t first[4];
    std::uint32_t second[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      first[j] = __float_as_uint(sums[4 * j]);
      second[j] = __float_as_uint(sums[4 * j + 1]);
    }
    device::shuffle_words(first);
    device::shuffle_words(second);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      to[2 * j] = __uint_as_float(first[j]);
      to[2 * j + 1] = __uint_as_float(second[j]);
    }
  }

  // Writes dx and y of a vector. Returns its part of d y . y.
  __device__ float store_vec(int b, int i, const GateAndUp& x, const float (&dy)[8]) const {
    float gate[8];
    float up[8];
    float y[8];
    device::unpack(x.gate, gate);
    device::unpack(x.up, up);
    float dot = 0;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const device::ValueAndSlope f = device::evaluate<kKind>(gate[j]);
      const device::ValueAndSlope u = device::evaluate_up<kKind>(up[j]);
      y[j] = f.value * u.value;
      gate[j] = f.slope * u.value * dy[j];
      up[j] = f.value * dy[j] * u.slope;
      dot += y[j] * dy[j];
    }
    const std::int64_t row = row_of(b);
    __nv_bfloat16* const dx =
        static_cast<__nv_bfloat16*>(a_.dx) + row * 2 * a_.inner + column_of(i);
    device::store(gate, dx);
    device::store(up, dx + a_.inner);
    device::store(y, static_cast<__nv_bfloat16*>(a_.y) + row * a_.inner + column_of(i));
    return dot;
  }

  const Arguments& a_;
  Tile tile_;
  GateAndUp runs_[kAhead];
};

}  // namespace

int grouped_glu_gemm_parts(std::int64_t inner) {
  return static_cast<int>((inner + kTileColumns - 1) / kTileColumns);
}

void launch_grouped_glu_gemm_backward(const GroupedGluGemmArguments& arguments, void* stream) {
  launch_gated<GatedBackward>(arguments, stream);
}

}  // namespace packtrain
