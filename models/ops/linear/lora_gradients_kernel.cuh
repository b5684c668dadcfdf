// The kernel of lora_gradients.cu. It reads grad_output once. TMA copies 16 rows for each row of
// warps into stages of shared memory. Each warp multiplies its 16 rows and its columns by B and,
// transposed, by s. B and its gradient stay in registers for the whole range of rows. Warps with
// the same rows add their parts of grad_low_rank in shared memory.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "models/ops/cuda/hopper/mma.cuh"
#include "models/ops/cuda/hopper/tma.cuh"
#include "models/ops/linear/lora_gradients_storage.cuh"

namespace packtrain::device {

template <typename Shape>
class LoraGradientsBlock {
 public:
  using Storage = LoraGradientsStorage<Shape>;

  __device__ LoraGradientsBlock(const LoraGradientsKernelArguments& a, Storage& memory)
      : a_(a),
        memory_(memory),
        strip_(blockIdx.x),
        module_(module_of_strip(a)),
        column_(module_.begin + (strip_ - module_.first_strip) * Shape::kStripColumns) {
    set_rows();
  }

  __device__ void run() {
    if (threadIdx.x == 0) {
      for (int i = 0; i < Storage::kStages; ++i) memory_.full[i].init(1);
      fence_barrier_init();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      for (int i = 0; i < Storage::kStages; ++i) copy(i);
    }
    load_b();
    for (int i = 0; i < num_stages_; ++i) {
      memory_.full[i % Storage::kStages].wait(i / Storage::kStages % 2);
      const int num_rows = end_ - begin_ - i * Shape::kStageRows;
      if (a_.row_begins != nullptr && num_rows < Shape::kStageRows) {
        clear_rows(memory_.stages[i % Storage::kStages], num_rows);
      }
      multiply(memory_.stages[i % Storage::kStages], memory_.sums[i % 2]);
      __syncthreads();  // the stage has been read, the sums are written
      if (threadIdx.x == 0) copy(i + Storage::kStages);
      add_sums(memory_.sums[i % 2], begin_ + i * Shape::kStageRows);
    }
    if (module_.target.grad != nullptr) write_b_sums();
  }

 private:
  static constexpr int kRank = Shape::kRank;
  static constexpr int kColumnWarps = Shape::kColumnWarps;

  __device__ static const LoraGradientsModule& module_of_strip(
      const LoraGradientsKernelArguments& a) {
    int m = 0;
    while (m + 1 < a.num_modules && static_cast<int>(blockIdx.x) >= a.modules[m + 1].first_strip) {
      ++m;
    }
    return a.modules[m];
  }

  // The rows of this split of the rows of the module's adapter.
  __device__ void set_rows() {
    const bool is_one = a_.row_begins == nullptr;
    const int first = is_one ? 0 : a_.row_begins[module_.adapter];
    const int last = is_one ? a_.num_rows : a_.row_begins[module_.adapter + 1];
    const int stages = divide_up(last - first, Shape::kStageRows);
    const int split_rows = divide_up(stages, a_.num_splits) * Shape::kStageRows;
    begin_ = min(first + static_cast<int>(blockIdx.y) * split_rows, last);
    end_ = min(begin_ + split_rows, last);
    num_stages_ = divide_up(end_ - begin_, Shape::kStageRows);
  }
  __device__ static int divide_up(int n, int by) { return (n + by - 1) / by; }

  // Row and column of this warp among the block's warps.
  __device__ static int warp_row() { return threadIdx.x / 32 / kColumnWarps; }
  __device__ static int warp_column() { return threadIdx.x / 32 % kColumnWarps; }

  // Rows and columns outside of the matrices are zeros.
  __device__ void copy(int i) {
    if (i >= num_stages_) return;
    LoraGradientsStage<Shape>& stage = memory_.stages[i % Storage::kStages];
    Barrier& full = memory_.full[i % Storage::kStages];
    const int row = begin_ + i * Shape::kStageRows;
    full.arrive_and_expect_tx(sizeof(stage));
    for (int b = 0; b < Shape::kBoxes; ++b) {
      tma_load_2d(a_.grad_output_map, column_ + b * Shape::kBox, row, stage.grad_output[b], full);
    }
    tma_load_2d(a_.s_map, module_.low_begin, row, stage.s, full);
  }

  // Zeroes the rows of grad_output from `begin` on, which are of the next adapter. The zeros of s
  // are not enough, because NaN times zero is NaN. This is the last stage, so TMA writes none
  // after.
  __device__ static void clear_rows(LoraGradientsStage<Shape>& stage, int begin) {
    constexpr int kRowRuns = Shape::kBox * sizeof(__nv_bfloat16) / sizeof(uint4);
    for (int b = 0; b < Shape::kBoxes; ++b) {
      auto* const runs = reinterpret_cast<uint4*>(stage.grad_output[b]);
      for (int i = begin * kRowRuns + threadIdx.x; i < Shape::kStageRows * kRowRuns;
           i += Shape::kThreads) {
        runs[i] = uint4{};
      }
    }
    __syncthreads();
  }

  // The right operands of g B. Zeros beyond the module's columns and rank.
  __device__ void load_b() {
    const int lane = threadIdx.x % 32;
    const int first = column_ - module_.begin + warp_column() * Shape::kWarpColumns;
#pragma unroll
    for (int step = 0; step < Shape::kSteps; ++step) {
#pragma unroll
      for (int part = 0; part < Shape::kParts; ++part) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int row = first + step * 16 + half * 8 + lane % 4 * 2;
          const int column = part * 8 + lane / 4;
          b_[step][part][half] = b_at(row, column) | b_at(row + 1, column) << 16;
        }
      }
    }
  }
  __device__ std::uint32_t b_at(int row, int column) const {
    if (row >= module_.num_columns || column >= module_.rank) return 0;
    const std::int64_t at = std::int64_t{row} * module_.rank + column;
    return static_cast<const std::uint16_t*>(module_.b)[at];
  }

  __device__ void multiply(const LoraGradientsStage<Shape>& stage, float* to) {
    const int row = warp_row() * 16;
    std::uint32_t s[Shape::kParts][2];
    load_s(shared_address(stage.s), row, s);
    float sums[Shape::kParts][4] = {};
#pragma unroll
    for (int step = 0; step < Shape::kSteps; ++step) {
      const int column = warp_column() * Shape::kWarpColumns + step * 16;
      const std::uint32_t box = shared_address(stage.grad_output[column / Shape::kBox]);
      const int chunk = column % Shape::kBox / 8;
      std::uint32_t left[4];
      load_matrices(left_place(box, row, chunk), left);
#pragma unroll
      for (int part = 0; part < Shape::kParts; ++part) {
        mma_16x8(sums[part], left, b_[step][part]);
      }
      std::uint32_t transposed[4];
      load_transposed(transposed_left_place(box, row, chunk), transposed);
#pragma unroll
      for (int part = 0; part < Shape::kParts; ++part) {
        mma_16x8(b_sums_[step][part], transposed, s[part]);
      }
    }
    store_sums(sums, to);
  }

  __device__ static void load_s(std::uint32_t box, int row, std::uint32_t (&s)[Shape::kParts][2]) {
#pragma unroll
    for (int part = 0; part < Shape::kParts; part += 2) {
      std::uint32_t words[4];
      load_transposed(left_place(box, row, part), words);
      s[part][0] = words[0];
      s[part][1] = words[1];
      s[part + 1][0] = words[2];
      s[part + 1][1] = words[3];
    }
  }

  // [kColumnWarps, kStageRows, kRank]
  __device__ static void store_sums(const float (&sums)[Shape::kParts][4], float* to) {
    const int lane = threadIdx.x % 32;
    const int row = warp_column() * Shape::kStageRows + warp_row() * 16 + lane / 4;
#pragma unroll
    for (int part = 0; part < Shape::kParts; ++part) {
      float* const at = to + row * kRank + part * 8 + lane % 4 * 2;
      *reinterpret_cast<float2*>(at) = make_float2(sums[part][0], sums[part][1]);
      *reinterpret_cast<float2*>(at + 8 * kRank) = make_float2(sums[part][2], sums[part][3]);
    }
  }

  __device__ void add_sums(const float* sums, int first_row) const {
    constexpr int kStageNumel = Shape::kStageRows * kRank;
    for (int i = threadIdx.x * 4; i < kStageNumel; i += Shape::kThreads * 4) {
      const int row = first_row + i / kRank;
      if (row >= end_) return;
      float4 total = *reinterpret_cast<const float4*>(sums + i);
#pragma unroll
      for (int w = 1; w < kColumnWarps; ++w) {
        const float4 next = *reinterpret_cast<const float4*>(sums + w * kStageNumel + i);
        total.x += next.x;
        total.y += next.y;
        total.z += next.z;
        total.w += next.w;
      }
      const int strip = module_.first_low_strip + strip_ - module_.first_strip;
      float* const to =
          a_.low_partials + (std::int64_t{strip} * a_.num_rows + row) * kRank + i % kRank;
      *reinterpret_cast<float4*>(to) = total;
    }
  }

  // Adds the sums of the rows of warps in order, through the memory of the stages.
  __device__ void write_b_sums() {
    constexpr int kWarpNumel = Shape::kWarpColumns * kRank;
    constexpr int kStripNumel = Shape::kStripColumns * kRank;
    static_assert(sizeof(memory_.stages) >= Shape::kWarps * kWarpNumel * sizeof(float));
    auto* const sums = reinterpret_cast<float*>(&memory_.stages);
    const int lane = threadIdx.x % 32;
    float* const own = sums + threadIdx.x / 32 * kWarpNumel;
#pragma unroll
    for (int step = 0; step < Shape::kSteps; ++step) {
#pragma unroll
      for (int part = 0; part < Shape::kParts; ++part) {
        const float(&four)[4] = b_sums_[step][part];
        float* const at = own + (step * 16 + lane / 4) * kRank + part * 8 + lane % 4 * 2;
        *reinterpret_cast<float2*>(at) = make_float2(four[0], four[1]);
        *reinterpret_cast<float2*>(at + 8 * kRank) = make_float2(four[2], four[3]);
      }
    }
    __syncthreads();
    float* const to =
        a_.b_partials + (std::int64_t{blockIdx.y} * a_.num_strips + strip_) * kStripNumel;
    for (int i = threadIdx.x * 4; i < kStripNumel; i += Shape::kThreads * 4) {
      float4 total = *reinterpret_cast<const float4*>(sums + i);
#pragma unroll
      for (int w = 1; w < Shape::kRowWarps; ++w) {
        const float4 next = *reinterpret_cast<const float4*>(sums + w * kStripNumel + i);
        total.x += next.x;
        total.y += next.y;
        total.z += next.z;
        total.w += next.w;
      }
      *reinterpret_cast<float4*>(to + i) = total;
    }
  }

  const LoraGradientsKernelArguments& a_;
  Storage& memory_;
  int strip_;
  const LoraGradientsModule& module_;
  int column_;  // first of the strip
  int begin_;   // first row of the split
  int end_;
  int num_stages_;
  std::uint32_t b_[Shape::kSteps][Shape::kParts][2];
  float b_sums_[Shape::kSteps][Shape::kParts][4] = {};
};

template <typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, 1)
    lora_gradients_kernel(const __grid_constant__ LoraGradientsKernelArguments a) {
  using Block = LoraGradientsBlock<Shape>;
  using Storage = typename Block::Storage;
  extern __shared__ unsigned char bytes[];
  const std::uintptr_t aligned = (reinterpret_cast<std::uintptr_t>(bytes) + alignof(Storage) - 1) /
                                 alignof(Storage) * alignof(Storage);
  Block(a, *reinterpret_cast<Storage*>(aligned)).run();
}

}  // namespace packtrain::device
