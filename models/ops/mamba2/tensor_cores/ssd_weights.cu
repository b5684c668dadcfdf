// The rows of a chunk add these terms to the gradients of its b and c, and to the sums of c dc.
// With W_ij = exp(a_i - a_j) d_j e_i x_j for j <= i, dc has W b and db has W^T c. The heads of a
// group share b and c. So W is summed over heads first, and c dc of a head is the sum of W_ij c_i
// b_j over j. A block of threads has a chunk and some heads of a group, a warp 16 rows.
#include "framework/device/cuda/check.h"
#include "models/ops/mamba2/tensor_cores/ssd_chunk_tiles.cuh"

namespace packtrain {
namespace {

using device::kSsdSquareBytes;
using device::kSsdWarpThreads;
using device::SsdSquare;
using Scores = device::SsdScores<false>;

constexpr int kRows = kSsdStateTile;
constexpr int kSteps = Scores::kSteps;

// Places in shared memory, in bytes. After the last head: W, rows of b, and of c.
struct WeightPlaces {
  int x;
  int stage_bytes;
  int of_b;
  int of_c;
  int bytes;

  __host__ __device__ WeightPlaces(int column_tiles, int state_tiles)
      : x(column_tiles * kSsdSquareBytes),
        stage_bytes(2 * x),
        of_b(kSsdSquareBytes),
        of_c(of_b + state_tiles * kSsdSquareBytes),
        bytes(max_of(2 * stage_bytes, of_c + state_tiles * kSsdSquareBytes)) {}

 private:
  __host__ __device__ static int max_of(int a, int b) { return a < b ? b : a; }
};

class SsdWeights {
 public:
  __device__ SsdWeights(const SsdTensorCoreArguments& a, unsigned char* shared,
                        device::SsdRowValues (&values)[2])
      : a_(a),
        shared_(shared),
        values_(values),
        places_(a.column_tiles, a.state_tiles),
        part_(static_cast<int>(blockIdx.y) % a.head_parts),
        group_(static_cast<int>(blockIdx.y) / a.head_parts),
        rows_(a.chunks[blockIdx.x]) {}

  __device__ void run() {
    const int share = a_.num_heads / a_.num_groups;
    const int begin = group_ * share + part_ * share / a_.head_parts;
    const int end = group_ * share + (part_ + 1) * share / a_.head_parts;
    load(begin, 0);
    device::cp_async_commit_group();
    scores_.load(chunk(begin));
    for (int head = begin; head < end; ++head) {
      const int stage = (head - begin) % 2;
      device::cp_async_wait_group<0>();
      __syncthreads();  // the copies are there, and the other stage is read
      if (head + 1 < end) load(head + 1, 1 - stage);
      device::cp_async_commit_group();
      add_head(head, stage);
    }
    multiply(begin);
  }

 private:
  __device__ device::SsdChunkHead chunk(int head) const { return {a_, rows_, head}; }

  __device__ void load(int head, int stage) {
    const device::SsdChunkHead of = chunk(head);
    unsigned char* const to = shared_ + stage * places_.stage_bytes;
    values_[stage].copy(of);
    device::copy_squares<kSsdWarpThreads>(device::elements(a_.grad_output) + of.output_offset(),
                                          of.value_stride(), rows_.num_rows, a_.head_dim,
                                          a_.column_tiles, to);
    device::copy_squares<kSsdWarpThreads>(of.x(), a_.x_stride, rows_.num_rows, a_.head_dim,
                                          a_.column_tiles, to + places_.x);
  }

  __device__ void add_head(int head, int stage) {
    const std::uint32_t grad = device::shared_address(shared_ + stage * places_.stage_bytes);
    const device::SsdRowValues& values = values_[stage];
    float row_products[2] = {};
#pragma unroll
    for (int pair = 0; pair < kSteps / 2; ++pair) {
      // A warp computes 32 columns in one branch, also where 16 of them are outside of the
      // triangle.
      if (!Scores::has_step(2 * pair)) continue;
      float products[4][4] = {};
      multiply_rows(grad, grad + places_.x, 32 * pair, products);
#pragma unroll
      for (int place = 0; place < 8; ++place) {
        const int k = 2 * pair + place / 4, word = place % 4;
        const int i = device::left_row(device::warp_row(), word);
        const int j = device::left_column(16 * k, word);
        const float* const two = &products[place / 2][word % 2 * 2];
        const float first = two[0] * values.ratio(i, j) * values.steps[j];
        const float second = two[1] * values.ratio(i, j + 1) * values.steps[j + 1];
        float2& sum = sums_[k][word];
        sum = {sum.x + first, sum.y + second};
        const float2 score = scores_.pairs[k][word];
        row_products[word % 2] =
            fmaf(first, score.x, fmaf(second, score.y, row_products[word % 2]));
      }
    }
    device::for_lane_rows(device::warp_row(), [&](int row, int half) {
      const float sum = device::quad_sum(row_products[half]);
      if (row >= rows_.num_rows || device::delta_lane() % 4 != 0) return;
      a_.row_products[(std::int64_t{rows_.first_row} + row) * a_.num_heads + head] = sum;
    });
  }

  // products += this warp's rows of the gradient times 32 rows of x from `n` on.
  __device__ void multiply_rows(std::uint32_t left, std::uint32_t right, int n,
                                float (&products)[4][4]) const {
    for (int tile = 0; tile < a_.column_tiles; ++tile) {
      device::multiply_tiles<SsdSquare, false, SsdSquare, false>(
          left + tile * kSsdSquareBytes, device::warp_row(), right + tile * kSsdSquareBytes, n, 0,
          kRows / 16, products);
    }
  }

  // W b and W^T c, with the sums of W over heads in bfloat16.
  __device__ void multiply(int head) {
    __syncthreads();  // the last head is read
    const device::SsdChunkHead of = chunk(head);
    device::copy_squares<kSsdWarpThreads>(of.b(), a_.b_stride, rows_.num_rows, a_.state_dim,
                                          a_.state_tiles, shared_ + places_.of_b);
    device::copy_squares<kSsdWarpThreads>(of.c(), a_.c_stride, rows_.num_rows, a_.state_dim,
                                          a_.state_tiles, shared_ + places_.of_c);
    device::cp_async_commit_group();
    store_weights();
    device::cp_async_wait_group<0>();
    __syncthreads();
    const std::uint32_t weights = device::shared_address(shared_);
    const std::uint32_t of_b = weights + places_.of_b, of_c = weights + places_.of_c;
    const int m = device::warp_row();
    for (int tile = 0; tile < a_.state_tiles; ++tile) {
      float of_rows[kRows / 8][4] = {};
      device::multiply_tiles<SsdSquare, false, SsdSquare, true>(
          weights, m, of_b + tile * kSsdSquareBytes, 0, 0, device::lower_steps(), of_rows);
      write(of_rows, tile * kRows, true);
      float of_columns[kRows / 8][4] = {};
      device::multiply_tiles<SsdSquare, true, SsdSquare, true>(
          weights, m, of_c + tile * kSsdSquareBytes, 0, device::first_upper_step(), kSteps,
          of_columns);
      write(of_columns, tile * kRows, false);
    }
  }

  // Places outside of the triangle are not read, but for those of its diagonal squares, which are
  // 0.
  __device__ void store_weights() const {
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      if (!Scores::has_step(k)) continue;
#pragma unroll
      for (int word = 0; word < 4; ++word) {
        const int column = device::left_column(16 * k, word);
        const std::uint32_t place =
            SsdSquare::place(device::left_row(device::warp_row(), word), column / 8) +
            column % 8 * sizeof(__nv_bfloat16);
        *reinterpret_cast<std::uint32_t*>(shared_ + place) =
            device::bfloat16_pair(sums_[k][word].x, sums_[k][word].y);
      }
    }
  }

  __device__ void write(const float (&sums)[kRows / 8][4], int n, bool of_c) const {
    device::for_lane_rows(device::warp_row(), [&](int row, int half) {
      if (row >= rows_.num_rows) return;
      float* const to = device::grad_part(a_, of_c, part_, rows_.first_row + row, group_);
#pragma unroll
      for (int t = 0; t < kRows / 8; ++t) {
        const int at = n + 8 * t + device::delta_lane() % 4 * 2;
        if (at < a_.state_dim) {
          *reinterpret_cast<float2*>(to + at) = {sums[t][2 * half], sums[t][2 * half + 1]};
        }
      }
    });
  }

  const SsdTensorCoreArguments& a_;
  unsigned char* shared_;
  device::SsdRowValues (&values_)[2];
  WeightPlaces places_;
  int part_;
  int group_;
  DeltaRuleChunkRows rows_;
  Scores scores_;
  float2 sums_[kSteps][4] = {};  // of W, in the places of a left operand
};

__global__ void __launch_bounds__(kSsdWarpThreads, 4)
    ssd_tensor_weights_kernel(const __grid_constant__ SsdTensorCoreArguments a) {
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ device::SsdRowValues values[2];
  SsdWeights(a, shared, values).run();
}

}  // namespace

void launch_ssd_tensor_grad_weights(const SsdTensorCoreArguments& arguments, void* stream) {
  const int bytes = WeightPlaces(arguments.column_tiles, arguments.state_tiles).bytes;
  PACKTRAIN_CUDA_CHECK(cudaFuncSetAttribute(ssd_tensor_weights_kernel,
                                            cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  const dim3 grid(static_cast<unsigned>(arguments.num_chunks),
                  static_cast<unsigned>(arguments.num_groups * arguments.head_parts));
  ssd_tensor_weights_kernel<<<grid, kSsdWarpThreads, bytes, static_cast<cudaStream_t>(stream)>>>(
      arguments);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace packtrain
