// States between chunks add these terms to the gradients of b and c, and to the sums of c dc. The
// formulas are those of ssd.h. A block of threads has a chunk and 128 of the N columns of b and c.
// It has some heads of a group, one after another. ssd_sums.cu adds the blocks' sums.
#include "framework/device/cuda/check.h"
#include "models/ops/mamba2/tensor_cores/ssd_chunk_tiles.cuh"

namespace packtrain {
namespace {

using device::kSsdSquareBytes;
using device::SsdSquare;

constexpr int kRows = kSsdStateTile;
constexpr int kThreads = 256;  // 4 warps along the rows, 2 along the columns
constexpr int kColumns = kSsdGroupTile / 2;
constexpr int kSumTiles = kColumns / 8;
using Wide = device::MatrixTile<kSsdGroupTile>;
constexpr int kStateSquares = kSsdGroupTile / kRows;
constexpr int kFactorBytes = kRows * static_cast<int>(sizeof(float));
// In shared memory, in bytes: the rows of c (dc only), and two stages.
constexpr int kStagePlace = kRows * Wide::kRowBytes;

// Places of a stage: factors of rows, the gradient or x, and the state, of all columns P.
struct GroupPlaces {
  int rows;
  int state;
  int stage_bytes;
  int bytes;

  __host__ __device__ explicit GroupPlaces(int column_tiles)
      : rows(kFactorBytes),
        state(rows + column_tiles * kSsdSquareBytes),
        stage_bytes(state + kStateSquares * column_tiles * kSsdSquareBytes),
        bytes(kStagePlace + 2 * stage_bytes) {}
};

// For dc the sum over heads of exp(a) S e, for db of exp(a_L - a) d dS' x: factors of rows times a
// product.
template <bool kOfB>
class SsdGroupGradient {
 public:
  __device__ SsdGroupGradient(const SsdTensorCoreArguments& a, unsigned char* shared)
      : a_(a),
        shared_(shared),
        places_(a.column_tiles),
        n_(static_cast<int>(blockIdx.z) * kSsdGroupTile),
        part_(static_cast<int>(blockIdx.y) % a.head_parts),
        group_(static_cast<int>(blockIdx.y) / a.head_parts),
        rows_(a.chunks[blockIdx.x]) {}

  __device__ void run() {
    if (slot() >= 0) {
      add_heads();
    } else if constexpr (!kOfB) {
      write_no_products();
    }
    write();
  }

 private:
  __device__ int slot() const { return kOfB ? rows_.slot_after : rows_.slot_before; }
  __device__ device::SsdChunkHead chunk(int head) const { return {a_, rows_, head}; }
  __device__ static int column() { return kColumns * device::warp_part(); }
  __device__ int share() const { return a_.num_heads / a_.num_groups; }
  __device__ int first_head() const { return group_ * share() + part_ * share() / a_.head_parts; }
  __device__ int last_head() const {
    return group_ * share() + (part_ + 1) * share() / a_.head_parts;
  }

  __device__ void add_heads() {
    const int begin = first_head(), end = last_head();
    if constexpr (!kOfB) {
      const device::SsdChunkHead of = chunk(begin);
      device::copy_tile<Wide, kRows, kThreads>(of.c() + n_, a_.c_stride, rows_.num_rows,
                                               a_.state_dim - n_, shared_);
    }
    load(begin, 0);
    device::cp_async_commit_group();
    for (int head = begin; head < end; ++head) {
      const int stage = (head - begin) % 2;
      device::cp_async_wait_group<0>();
      __syncthreads();  // the copies are there, and the other stage is read
      if (head + 1 < end) load(head + 1, 1 - stage);
      device::cp_async_commit_group();
      add_head(head, shared_ + kStagePlace + stage * places_.stage_bytes);
    }
  }

  __device__ void load(int head, int stage) {
    const device::SsdChunkHead of = chunk(head);
    unsigned char* const to = shared_ + kStagePlace + stage * places_.stage_bytes;
    const int row = static_cast<int>(threadIdx.x);
    if (row < kRows) {
      const float* const factors = kOfB ? a_.head_inputs : a_.head_decays;
      device::cp_async_word(factors + of.value_offset(row), to + row * sizeof(float), true);
    }
    const __nv_bfloat16* const from =
        kOfB ? of.x() : device::elements(a_.grad_output) + of.output_offset();
    device::copy_squares<kThreads>(from, kOfB ? a_.x_stride : of.value_stride(), rows_.num_rows,
                                   a_.head_dim, a_.column_tiles, to + places_.rows);
    const __nv_bfloat16* const state = device::elements(kOfB ? a_.slot_grads : a_.slot_states) +
                                       of.state_offset(slot()) + std::int64_t{n_} * a_.head_dim;
    for (int tile = 0; tile < a_.column_tiles; ++tile) {
      device::copy_square_rows<kThreads>(
          state + tile * kRows, a_.head_dim, a_.state_dim - n_, a_.head_dim - tile * kRows,
          kStateSquares, to + places_.state + tile * kStateSquares * kSsdSquareBytes);
    }
  }

  __device__ void add_head(int head, const unsigned char* stage) {
    const std::uint32_t left = device::shared_address(stage + places_.rows);
    const std::uint32_t state = device::shared_address(stage + places_.state);
    const int m = device::warp_row();
    float sums[kSumTiles][4] = {};
    for (int tile = 0; tile < a_.column_tiles; ++tile) {
      device::multiply_tiles<SsdSquare, false, SsdSquare, false>(
          left + tile * kSsdSquareBytes, m,
          state + (tile * kStateSquares + device::warp_part()) * kSsdSquareBytes, 0, 0, kRows / 16,
          sums);
    }
    const auto* const factors = reinterpret_cast<const float*>(stage);
    device::for_lane_rows(m, [&](int row, int half) {
      const float factor = factors[row];
      if constexpr (!kOfB) write_row_product(head, row, factor * dot_own(row, half, sums));
#pragma unroll
      for (int t = 0; t < kSumTiles; ++t) {
        total_[t][2 * half] = fmaf(factor, sums[t][2 * half], total_[t][2 * half]);
        total_[t][2 * half + 1] = fmaf(factor, sums[t][2 * half + 1], total_[t][2 * half + 1]);
      }
    });
  }

  // The row of c times that of `sums`, this warp's columns.
  __device__ float dot_own(int row, int half, const float (&sums)[kSumTiles][4]) const {
    float sum = 0;
#pragma unroll
    for (int t = 0; t < kSumTiles; ++t) {
      const float2 own = device::load_pair<Wide>(shared_, row, column(), t);
      sum = fmaf(own.x, sums[t][2 * half], fmaf(own.y, sums[t][2 * half + 1], sum));
    }
    return device::quad_sum(sum);
  }

  __device__ void write_row_product(int head, int row, float sum) const {
    if (row >= rows_.num_rows || device::delta_lane() % 4 != 0) return;
    const std::int64_t part = 1 + 2 * static_cast<int>(blockIdx.z) + device::warp_part();
    a_.row_products[(part * a_.num_rows + rows_.first_row + row) * a_.num_heads + head] = sum;
  }
  // The state before the first chunk is 0.
  __device__ void write_no_products() const {
    for (int head = first_head(); head < last_head(); ++head) {
      device::for_lane_rows(device::warp_row(),
                            [&](int row, int) { write_row_product(head, row, 0); });
    }
  }

  __device__ void write() const {
    device::for_lane_rows(device::warp_row(), [&](int row, int half) {
      if (row >= rows_.num_rows) return;
      float* const to =
          device::grad_part(a_, !kOfB, a_.head_parts + part_, rows_.first_row + row, group_);
#pragma unroll
      for (int t = 0; t < kSumTiles; ++t) {
        const int at = n_ + column() + 8 * t + device::delta_lane() % 4 * 2;
        if (at < a_.state_dim) {
          *reinterpret_cast<float2*>(to + at) = {total_[t][2 * half], total_[t][2 * half + 1]};
        }
      }
    });
  }

  const SsdTensorCoreArguments& a_;
  unsigned char* shared_;
  GroupPlaces places_;
  int n_;  // first of the columns of b and c
  int part_;
  int group_;
  DeltaRuleChunkRows rows_;
  float total_[kSumTiles][4] = {};
};

template <bool kOfB>
__global__ void __launch_bounds__(kThreads, 2)
    ssd_tensor_group_kernel(const __grid_constant__ SsdTensorCoreArguments a) {
  extern __shared__ __align__(1024) unsigned char shared[];
  SsdGroupGradient<kOfB>(a, shared).run();
}

template <bool kOfB>
void launch_group_of(const SsdTensorCoreArguments& a, cudaStream_t stream) {
  const int bytes = GroupPlaces(a.column_tiles).bytes;
  PACKTRAIN_CUDA_CHECK(cudaFuncSetAttribute(ssd_tensor_group_kernel<kOfB>,
                                            cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  const dim3 grid(static_cast<unsigned>(a.num_chunks),
                  static_cast<unsigned>(a.num_groups * a.head_parts),
                  static_cast<unsigned>(a.group_tiles));
  ssd_tensor_group_kernel<kOfB><<<grid, kThreads, bytes, stream>>>(a);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace

void launch_ssd_tensor_grad_groups(const SsdTensorCoreArguments& arguments, void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  launch_group_of<true>(arguments, on);
  launch_group_of<false>(arguments, on);
}

}  // namespace packtrain
