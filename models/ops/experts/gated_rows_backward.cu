#include "models/ops/activation/evaluate.cuh"
#include "models/ops/cuda/vector.cuh"
#include "models/ops/experts/gated_rows_tiles.cuh"

namespace packtrain {
namespace {

using device::RowsTile;

constexpr int kTileColumns = 128;

template <ActivationKind kKind>
class GatedBackward {
 public:
  static constexpr int kColumns = kTileColumns;
  static constexpr device::Major kRight = device::Major::kOuter;

  __device__ static int num_tiles(const GatedRowsArguments& a) {
    return (a.inner + kColumns - 1) / kColumns;
  }

  static CUtensorMap right_map(const GatedRowsArguments& a) {
    const std::int64_t num_rows = std::int64_t{a.num_groups} * a.depth;
    return bfloat16_map(a.weight, {num_rows, a.inner, a.inner}, {device::kStageDepth, kBox});
  }

  __device__ static void copy_right(const CUtensorMap& map, const GatedRowsArguments& a,
                                    const RowsTile& tile, int depth, __nv_bfloat16* to,
                                    device::Barrier& full) {
    for (int b = 0; b < kColumns / kBox; ++b) {
      device::copy_box(map, tile.column * kColumns + b * kBox, tile.group * a.depth + depth,
                       to + b * kBox * device::kStageDepth, full);
    }
  }

  __device__ static std::uint64_t right_operand(std::uint32_t right, int step) {
    constexpr int kBoxBytes = kBox * device::kStageDepth * sizeof(__nv_bfloat16);
    return device::outer_major_operand(right + step * 16 * kBox * 2, kBoxBytes);
  }

  // What the way back reads of x comes to L2 while the tile is computed.
  __device__ GatedBackward(const GatedRowsArguments& a, const RowsTile& tile) : a_(a), tile_(tile) {
    constexpr int kLine = 64;  // elements of a line of L2
    constexpr int kLines = kColumns / kLine;
    for (int i = threadIdx.x % 128; i < device::kTileRows * kLines * 2; i += 128) {
      const int row = tile.row + i / (2 * kLines);
      const int column = tile.column * kColumns + i % kLines * kLine;
      const bool is_up = i / kLines % 2 == 1;
      if (row < tile.end && column < a.inner) {
        device::fetch_to_l2(x_of(row) + column + (is_up ? a.inner : 0));
      }
    }
  }

  __device__ void begin() {
#pragma unroll
    for (int i = 0; i < kRuns; ++i) read(0, i);
  }

  __device__ void write(const device::TileSums<kColumns>& sums) {
    write_rows<0>(sums.halves[0]);
    write_rows<1>(sums.halves[0]);
    write_rows<2>(sums.halves[1]);
    write_rows<3>(sums.halves[1]);
  }

 private:
  static constexpr int kBox = 64;              // columns that are copied at once: 128 bytes
  static constexpr int kRuns = kColumns / 32;  // of 8 columns, in a row

  struct GateAndUp {
    device::Run<__nv_bfloat16, 8> gate;
    device::Run<__nv_bfloat16, 8> up;
  };

  // A thread has four rows, and of each 8 columns of every 32.
  __device__ int row_of(int b) const {
    return tile_.row + b / 2 * 64 + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4 + b % 2 * 8;
  }
  __device__ int column_of(int i) const {
    return tile_.column * kColumns + 32 * i + threadIdx.x % 4 * 8;
  }
  __device__ bool is_inside(int b, int i) const {
    return row_of(b) < tile_.end && column_of(i) < a_.inner;
  }
  __device__ const __nv_bfloat16* x_of(int row) const {
    return static_cast<const __nv_bfloat16*>(a_.x) + std::int64_t{row} * 2 * a_.inner;
  }

  __device__ __forceinline__ void read(int b, int i) {
    if (!is_inside(b, i)) return;
    const __nv_bfloat16* const x = x_of(row_of(b)) + column_of(i);
    runs_[i].gate = device::read_run<8>(x);
    runs_[i].up = device::read_run<8>(x + a_.inner);
  }

  // A run that is used up makes room for that of the next row.
  template <int kRow>
  __device__ __forceinline__ void write_rows(const device::Sums<kColumns>& sums) {
    float dot = 0;
#pragma unroll
    for (int i = 0; i < kRuns; ++i) {
      float dy[8];
      gather(sums.values + 16 * i + 2 * (kRow % 2), dy);
      if (is_inside(kRow, i)) dot += write_run(kRow, i, runs_[i], dy);
      if constexpr (kRow < 3) read(kRow + 1, i);
    }
    dot += __shfl_xor_sync(~0U, dot, 1);
    dot += __shfl_xor_sync(~0U, dot, 2);
    if (threadIdx.x % 4 == 0 && row_of(kRow) < tile_.end && tile_.column < num_tiles(a_)) {
      a_.dots[std::int64_t{row_of(kRow)} * num_tiles(a_) + tile_.column] = dot;
    }
  }

  // Of 32 columns, of which this thread's sums are two of each 8, the 8 of its runs.
  __device__ static void gather(const float* sums, float (&to)[8]) {
    std::uint32_t first[4];
    std::uint32_t second[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      first[j] = __float_as_uint(sums[4 * j]);
      second[j] = __float_as_uint(sums[4 * j + 1]);
    }
    device::exchange_words(first);
    device::exchange_words(second);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      to[2 * j] = __uint_as_float(first[j]);
      to[2 * j + 1] = __uint_as_float(second[j]);
    }
  }

  // Returns d y . y of the run.
  __device__ float write_run(int b, int i, const GateAndUp& x, const float (&dy)[8]) const {
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

  const GatedRowsArguments& a_;
  RowsTile tile_;
  GateAndUp runs_[kRuns];
};

}  // namespace

int gated_rows_parts(std::int64_t inner) {
  return static_cast<int>((inner + kTileColumns - 1) / kTileColumns);
}

bool has_gated_rows_kernels() {
  int device = 0;
  int major = 0;
  int minor = 0;
  PACKTRAIN_CUDA_CHECK(cudaGetDevice(&device));
  PACKTRAIN_CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  PACKTRAIN_CUDA_CHECK(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  return PACKTRAIN_HAS_HOPPER_KERNELS && major == 9 && minor == 0;
}

void launch_gated_rows_backward(const GatedRowsArguments& arguments, void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  switch (arguments.kind) {
    case ActivationKind::kSilu:
      return device::launch_rows<GatedBackward<ActivationKind::kSilu>>(arguments, on);
    case ActivationKind::kGeluTanh:
      return device::launch_rows<GatedBackward<ActivationKind::kGeluTanh>>(arguments, on);
    case ActivationKind::kGeluErf:
      return device::launch_rows<GatedBackward<ActivationKind::kGeluErf>>(arguments, on);
    case ActivationKind::kClampedSwish:
      return device::launch_rows<GatedBackward<ActivationKind::kClampedSwish>>(arguments, on);
  }
}

}  // namespace packtrain
