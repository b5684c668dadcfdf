// Values of rows, products of b and c, and the recurrences over the chunks of a sequence: states
// forward, their gradients backward. The formulas are those of ssd.h. A state is float32 in
// registers. Between chunks it is stored in bfloat16.
#include "framework/device/cuda/check.h"
#include "models/ops/cuda/warp_sum.cuh"
#include "models/ops/mamba2/tensor_cores/ssd_chunk_tiles.cuh"

namespace packtrain {
namespace {

using device::kSsdSquareBytes;
using device::kSsdWarpThreads;
using device::SsdSquare;

constexpr int kRows = kSsdStateTile;  // of a chunk

constexpr int kValueThreads = 256;

// A block of threads has a chunk and 64 heads. Inputs have the heads of a row after each other,
// outputs the rows of a head.
__global__ void __launch_bounds__(kValueThreads)
    ssd_row_values_kernel(const __grid_constant__ SsdTensorCoreArguments a) {
  __shared__ float sums[kRows][kRows + 1];  // [head, row]
  __shared__ float steps[kRows][kRows + 1];
  const int first_head = static_cast<int>(blockIdx.y) * kRows;
  const int num_heads = min(kRows, a.num_heads - first_head);
  const DeltaRuleChunkRows rows = a.chunks[blockIdx.x];
  for (int at = static_cast<int>(threadIdx.x); at < kRows * kRows; at += kValueThreads) {
    const int row = at / kRows, head = at % kRows;
    if (row >= rows.num_rows || head >= num_heads) continue;
    const std::int64_t from =
        (std::int64_t{rows.first_row} + row) * a.num_heads + first_head + head;
    sums[head][row] = a.g[from];
    steps[head][row] = a.steps[from];
  }
  __syncthreads();
  if (static_cast<int>(threadIdx.x) < num_heads) {
    float* const of_head = sums[threadIdx.x];
    for (int i = 1; i < rows.num_rows; ++i) of_head[i] += of_head[i - 1];
  }
  __syncthreads();
  for (int at = static_cast<int>(threadIdx.x); at < kRows * kRows; at += kValueThreads) {
    const int head = at / kRows, row = at % kRows;
    if (row >= rows.num_rows || head >= num_heads) continue;
    const std::int64_t to = (first_head + head) * a.num_rows + rows.first_row + row;
    const float sum = sums[head][row], step = steps[head][row];
    a.head_sums[to] = sum;
    a.head_decays[to] = __expf(sum);
    a.head_steps[to] = step;
    a.head_inputs[to] = __expf(sums[head][rows.num_rows - 1] - sum) * step;
  }
}

// Products of the rows of two tiles. A warp writes its 16 rows.
__device__ void write_scores(const device::SsdChunkHead& chunk, int tiles,
                             const unsigned char* left, const unsigned char* right,
                             bool transposed) {
  const int m = device::warp_row();
  float sums[kRows / 8][4] = {};
  for (int tile = 0; tile < tiles; ++tile) {
    device::multiply_tiles<SsdSquare, false, SsdSquare, false>(
        device::shared_address(left) + tile * kSsdSquareBytes, m,
        device::shared_address(right) + tile * kSsdSquareBytes, 0, 0, kRows / 16, sums);
  }
  device::for_lane_rows(m, [&](int row, int half) {
    if (row >= chunk.rows.num_rows) return;
    float* const to = chunk.scores(row, transposed) + device::delta_lane() % 4 * 2;
#pragma unroll
    for (int t = 0; t < kRows / 8; ++t) {
      *reinterpret_cast<float2*>(to + 8 * t) = {sums[t][2 * half], sums[t][2 * half + 1]};
    }
  });
}

// c_i b_j of a chunk and a group.
__global__ void __launch_bounds__(kSsdWarpThreads)
    ssd_scores_kernel(const __grid_constant__ SsdTensorCoreArguments a) {
  extern __shared__ __align__(1024) unsigned char shared[];
  const int group = static_cast<int>(blockIdx.y);
  const device::SsdChunkHead chunk(a, static_cast<int>(blockIdx.x),
                                   group * (a.num_heads / a.num_groups));
  const int tiles = a.state_tiles;
  const int present = chunk.rows.num_rows;
  unsigned char* const of_b = shared + tiles * kSsdSquareBytes;
  device::copy_squares<kSsdWarpThreads>(chunk.c(), a.c_stride, present, a.state_dim, tiles, shared);
  device::copy_squares<kSsdWarpThreads>(chunk.b(), a.b_stride, present, a.state_dim, tiles, of_b);
  device::cp_async_commit_group();
  device::cp_async_wait_group<0>();
  __syncthreads();
  write_scores(chunk, tiles, shared, of_b, false);
  if (a.grad_output != nullptr) write_scores(chunk, tiles, of_b, shared, true);
}

// Places of a stage in shared memory, in bytes.
constexpr int kStages = 3;
constexpr int kWeightPlace = 2 * kSsdSquareBytes;
constexpr int kWholePlace = kWeightPlace + kRows * static_cast<int>(sizeof(float));
constexpr int kStatePlace = kWholePlace + 128;  // backward: the state of the step's slot
template <bool kBackward>
constexpr int kStageBytes = kStatePlace + (kBackward ? kSsdSquareBytes : 0);

// A block of threads has a sequence, a head, 64 rows of N and 64 columns. Forward it has the states
// after chunks 0, 1, ... Backward it has the gradients of the states before the chunks, the last
// chunk first. A step adds the rows of a chunk: weight_i left_i right_i^T.
template <bool kBackward>
class SsdRecurrence {
 public:
  __device__ SsdRecurrence(const SsdTensorCoreArguments& a, unsigned char* shared)
      : a_(a),
        shared_(shared),
        sequence_(a.sequences[blockIdx.x]),
        first_(a, sequence_.first_chunk, static_cast<int>(blockIdx.y)),
        last_rows_(a.chunks[sequence_.first_chunk + sequence_.num_chunks - 1].num_rows),
        column_tiles_(a.column_tiles),
        n_(static_cast<int>(blockIdx.z) / column_tiles_ * kSsdStateTile),
        p_(static_cast<int>(blockIdx.z) % column_tiles_ * kSsdStateTile) {}

  __device__ void run() {
    const int steps = sequence_.num_chunks - 1;
    for (int i = 0; i < kStages - 1; ++i) {
      if (i < steps) load(i);
      device::cp_async_commit_group();
    }
    for (int i = 0; i < steps; ++i) {
      device::cp_async_wait_group<kStages - 2>();
      __syncthreads();  // the copies are there, and the stage of the step before is read
      if (i + kStages - 1 < steps) load(i + kStages - 1);
      device::cp_async_commit_group();
      step(i);
    }
  }

 private:
  __device__ int chunk_of(int i) const { return kBackward ? sequence_.num_chunks - 1 - i : i; }
  // A sequence's chunks follow each other, and so do their slots.
  __device__ int slot_of(int i) const {
    return first_.rows.slot_after + chunk_of(i) - (kBackward ? 1 : 0);
  }

  __device__ void load(int i) {
    const int chunk = chunk_of(i);
    const std::int64_t row = std::int64_t{chunk} * kRows;
    const int present = chunk + 1 == sequence_.num_chunks ? last_rows_ : kRows;
    unsigned char* const to = shared_ + i % kStages * kStageBytes<kBackward>;
    const __nv_bfloat16* const left =
        kBackward ? first_.c() + row * a_.c_stride : first_.b() + row * a_.b_stride;
    device::copy_squares<kSsdWarpThreads>(left + n_, kBackward ? a_.c_stride : a_.b_stride, present,
                                          a_.state_dim - n_, 1, to);
    const std::int64_t stride = kBackward ? first_.value_stride() : a_.x_stride;
    const __nv_bfloat16* const right =
        (kBackward ? device::elements(a_.grad_output) + first_.output_offset() : first_.x()) +
        row * stride;
    device::copy_squares<kSsdWarpThreads>(right + p_, stride, present, a_.head_dim - p_, 1,
                                          to + kSsdSquareBytes);
    if constexpr (kBackward) {
      const __nv_bfloat16* const state = device::elements(a_.slot_states) +
                                         first_.state_offset(slot_of(i)) +
                                         std::int64_t{n_} * a_.head_dim + p_;
      device::copy_squares<kSsdWarpThreads>(state, a_.head_dim, a_.state_dim - n_, a_.head_dim - p_,
                                            1, to + kStatePlace);
    }
    load_weights(to, first_.head * a_.num_rows + first_.rows.first_row + row, present);
  }

  __device__ void load_weights(unsigned char* to, std::int64_t at, int present) {
    const int thread = static_cast<int>(threadIdx.x);
    const float* const weights = (kBackward ? a_.head_decays : a_.head_inputs) + at;
    if (thread < kRows) {
      device::cp_async_word(thread < present ? weights + thread : weights,
                            to + kWeightPlace + thread * sizeof(float), thread < present);
    } else if (thread == kRows) {
      device::cp_async_word(a_.head_decays + at + present - 1, to + kWholePlace, true);
    }
  }

  __device__ void step(int i) {
    const unsigned char* const stage = shared_ + i % kStages * kStageBytes<kBackward>;
    const float whole = *reinterpret_cast<const float*>(stage + kWholePlace);
    const std::uint32_t left = device::shared_address(stage);
#pragma unroll
    for (auto& tile : state_) {
#pragma unroll
      for (float& element : tile) element *= whole;
    }
#pragma unroll
    for (int k = 0; k < kRows; k += 16) {
      std::uint32_t words[4];
      device::load_transposed(SsdSquare::transposed_left(left, k, device::warp_row() / 8), words);
      weigh(words, stage + kWeightPlace + k * sizeof(float));
      device::multiply_words<SsdSquare>(words, left + kSsdSquareBytes, k, 0, state_);
    }
    const int slot = slot_of(i);
    if constexpr (kBackward) write_product(slot, stage + kStatePlace);
    __nv_bfloat16* const to = device::elements(kBackward ? a_.slot_grads : a_.slot_states) +
                              first_.state_offset(slot) + std::int64_t{n_} * a_.head_dim + p_;
    device::write_sums(state_, device::warp_row(), 0, to, a_.head_dim, a_.state_dim - n_,
                       a_.head_dim - p_);
  }

  // Multiplies the rows of the chunk, the columns of the operand, by 16 weights.
  __device__ static void weigh(std::uint32_t (&words)[4], const unsigned char* weights) {
#pragma unroll
    for (int part = 0; part < 2; ++part) {
      const float2 weight = *reinterpret_cast<const float2*>(
          weights + (device::delta_lane() % 4 * 2 + 8 * part) * sizeof(float));
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        std::uint32_t& word = words[2 * part + half];
        word = device::bfloat16_pair(device::low_bfloat16(word) * weight.x,
                                     device::high_bfloat16(word) * weight.y);
      }
    }
  }

  // This warp's part of the sum of the state times its gradient.
  __device__ void write_product(int slot, const unsigned char* states) const {
    float sum = 0;
    device::for_lane_rows(device::warp_row(), [&](int row, int half) {
#pragma unroll
      for (int t = 0; t < kRows / 8; ++t) {
        const float2 state = device::load_pair<SsdSquare>(states, row, 0, t);
        sum = fmaf(state.x, state_[t][2 * half], fmaf(state.y, state_[t][2 * half + 1], sum));
      }
    });
    sum = device::warp_sum(sum);
    if (device::delta_lane() != 0) return;
    a_.state_products[(std::int64_t{slot} * a_.num_heads + first_.head) * a_.state_parts +
                      static_cast<int>(blockIdx.z) * 4 + device::delta_warp()] = sum;
  }

  const SsdTensorCoreArguments& a_;
  unsigned char* shared_;
  DeltaRuleSequence sequence_;
  device::SsdChunkHead first_;
  int last_rows_;
  int column_tiles_;
  int n_;  // first row of N, and first column
  int p_;
  float state_[kRows / 8][4] = {};
};

template <bool kBackward>
__global__ void __launch_bounds__(kSsdWarpThreads)
    ssd_recurrence_kernel(const __grid_constant__ SsdTensorCoreArguments a) {
  extern __shared__ __align__(1024) unsigned char shared[];
  SsdRecurrence<kBackward>(a, shared).run();
}

template <bool kBackward>
void launch_recurrence_of(const SsdTensorCoreArguments& a, cudaStream_t stream) {
  if (a.num_long == 0) return;
  constexpr int kBytes = kStages * kStageBytes<kBackward>;
  PACKTRAIN_CUDA_CHECK(cudaFuncSetAttribute(ssd_recurrence_kernel<kBackward>,
                                            cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
  const int tiles = a.state_tiles * a.column_tiles;
  const dim3 grid(static_cast<unsigned>(a.num_long), static_cast<unsigned>(a.num_heads),
                  static_cast<unsigned>(tiles));
  ssd_recurrence_kernel<kBackward><<<grid, kSsdWarpThreads, kBytes, stream>>>(a);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace

void launch_ssd_tensor_states(const SsdTensorCoreArguments& arguments, void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  const auto chunks = static_cast<unsigned>(arguments.num_chunks);
  const auto heads = static_cast<unsigned>(arguments.num_heads);
  ssd_row_values_kernel<<<dim3(chunks, (heads + kRows - 1) / kRows), kValueThreads, 0, on>>>(
      arguments);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
  const int bytes = 2 * arguments.state_tiles * kSsdSquareBytes;
  PACKTRAIN_CUDA_CHECK(
      cudaFuncSetAttribute(ssd_scores_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  ssd_scores_kernel<<<dim3(chunks, static_cast<unsigned>(arguments.num_groups)), kSsdWarpThreads,
                      bytes, on>>>(arguments);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
  launch_recurrence_of<false>(arguments, on);
}

void launch_ssd_tensor_grad_states(const SsdTensorCoreArguments& arguments, void* stream) {
  launch_recurrence_of<true>(arguments, static_cast<cudaStream_t>(stream));
}

}  // namespace packtrain
