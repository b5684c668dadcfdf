// Tiles of lora_gemm.cu, and their epilogue: accumulators plus bias and addend, rounded once.
#pragma once

#include <cstdint>

#include "models/ops/cuda/hopper/cooperative.cuh"
#include "models/ops/cuda/hopper/fragment.cuh"
#include "models/ops/cuda/vector.cuh"
#include "models/ops/linear/lora_gemm_launch.h"

namespace packtrain::device {

// The kernel argument: sizes, and the tensor maps that Operands does not have.
struct LoraGemmKernelArguments : LoraGemmArguments {
  CUtensorMap low_map;
  CUtensorMap module_maps[kMaxLoraGemmModules];
  CUtensorMap out_map;
};

struct LoraTile {
  static constexpr int kRows = 128;
  static constexpr int kColumns = 256;

  int row;
  int column;
  int num_dense;  // stages of left and right; the stages of the modules follow
  int num_stages;
  int first_module;  // of those whose adapters have rows here
  int end_module;
};

// A stage of a tile that multiplies elements [64 chunk, 64 chunk + 64) of a module's rank.
struct LowStage {
  int module;
  int chunk;
};

// The blocks of a cluster share right operands, so they have the same stages.
__device__ inline void set_modules(const LoraGemmArguments& a, LoraTile& tile) {
  constexpr int kClusterRows = kClusterSize * LoraTile::kRows;
  tile.first_module = 0;
  tile.end_module = a.num_modules;
  if (a.row_begins == nullptr) return;
  const int top = tile.row / kClusterRows * kClusterRows;
  int first = 0;
  int end = 0;
  for (int i = 0; i < a.num_adapters; ++i) {
    if (a.row_begins[i + 1] <= top) ++first;
    if (a.row_begins[i] < top + kClusterRows) ++end;
  }
  tile.first_module = a.first_module[first];
  tile.end_module = a.first_module[end];
}

__device__ inline int num_low_stages(const LoraGemmModule& module, int column) {
  const bool overlaps =
      column < module.begin + module.num_columns && column + LoraTile::kColumns > module.begin;
  return overlaps ? (module.rank + kStageDepth - 1) / kStageDepth : 0;
}

__device__ inline LowStage low_stage(const LoraGemmArguments& a, const LoraTile& tile, int i) {
  LowStage stage{tile.first_module, i - tile.num_dense};
  while (stage.module + 1 < tile.end_module) {
    const int num = num_low_stages(a.modules[stage.module], tile.column);
    if (stage.chunk < num) break;
    stage.chunk -= num;
    ++stage.module;
  }
  return stage;
}

// Gives a cluster two tiles, one below the other. Clusters that run at the same time work on a
// panel, so that their operands stay in L2.
class LoraTileScheduler {
 public:
  __device__ explicit LoraTileScheduler(const LoraGemmArguments& a)
      : a_(a),
        high_((a.num_rows + kClusterRows - 1) / kClusterRows),
        wide_((a.width + LoraTile::kColumns - 1) / LoraTile::kColumns),
        next_(first_cluster_tile()) {}

  __device__ bool next(LoraTile& tile) {
    if (next_ >= high_ * wide_) return false;
    const int top = next_ / (kPanel * wide_) * kPanel;
    const int height = min(kPanel, high_ - top);
    const int in_panel = next_ - top * wide_;
    tile.row = (top + in_panel % height) * kClusterRows + block_rank_in_cluster() * LoraTile::kRows;
    tile.column = in_panel / height * LoraTile::kColumns;
    tile.num_dense = (a_.depth + kStageDepth - 1) / kStageDepth;
    tile.num_stages = tile.num_dense;
    set_modules(a_, tile);
    for (int m = tile.first_module; m < tile.end_module; ++m) {
      tile.num_stages += num_low_stages(a_.modules[m], tile.column);
    }
    next_ += num_clusters();
    return true;
  }

 private:
  static constexpr int kClusterRows = kClusterSize * LoraTile::kRows;
  static constexpr int kPanel = 8;  // height of a panel in clusters

  const LoraGemmArguments& a_;
  int high_;
  int wide_;
  int next_;
};

// Barrier of one consumer warp group. Barrier 1 is that of both (cooperative.cuh).
__device__ inline void consumer_group_sync() {
  asm volatile("bar.sync %0, %1;" ::"r"(1 + static_cast<int>(threadIdx.x) / kWarpGroupThreads),
               "n"(kWarpGroupThreads)
               : "memory");
}

// Two boxes of 64 x 64 for each consumer warp group. One is filled while TMA stores the other.
struct LoraEpilogueStorage {
  __nv_bfloat16 boxes[2][2][kBoxNumel];
};

// Stores a warp group's 64 x 256 sums in four parts of 64 columns.
class LoraEpilogue {
 public:
  using Sums = Accumulator<LoraTile::kColumns>;

  __device__ LoraEpilogue(const LoraGemmKernelArguments& a, const LoraTile& tile)
      : a_(a),
        column_(tile.column),
        top_(tile.row + group() * kMmaRows),
        row_(top_ + threadIdx.x / 32 % kWarpGroupWarps * 16 + threadIdx.x % 32 / 4) {
    if (a_.addend != nullptr) prefetch(tile);
  }

  // The first reads of the addend overlap with the last wgmma.
  __device__ void begin() {
    if (a_.addend != nullptr) read(0);
  }

  __device__ void write(Sums& sums, LoraEpilogueStorage& memory) {
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      if (a_.addend != nullptr) {
        if (part + 1 < kParts) read(part + 1);
        add(part, sums);
      }
      if (a_.bias != nullptr) add_bias(part, sums);
      store_box(part, sums, memory.boxes[group()][part % 2]);
    }
  }

  __device__ static void finish() {
    // Shared memory must not be freed while it is read.
    if (is_leader()) tma_store_wait_read<0>();
  }

 private:
  static constexpr int kParts = 4;
  static constexpr int kPartColumns = LoraTile::kColumns / kParts;
  static constexpr int kVectors = 4;  // of 8 columns that a thread has of a part: 2 in each row

  __device__ static int group() { return threadIdx.x / kWarpGroupThreads - 1; }
  __device__ static bool is_leader() { return threadIdx.x % kWarpGroupThreads == 0; }

  // The i-th vector of a part: the row, the first of 8 columns, and whether the matrix has it.
  __device__ int row_of(int i) const { return row_ + i % 2 * 8; }
  __device__ int column_of(int part, int i) const {
    return column_ + part * kPartColumns + i / 2 * 32 + threadIdx.x % 4 * 8;
  }
  __device__ bool is_inside(int part, int i) const {
    return row_of(i) < a_.num_rows && column_of(part, i) < a_.width;
  }
  // The first of the two sums that this thread has of the j-th 8 columns of the i-th vector's row.
  __device__ static int sum_index(int part, int i, int j) {
    return 4 * (part * kPartColumns / 8 + i / 2 * 4 + j) + i % 2 * 2;
  }

  __device__ void prefetch(const LoraTile& tile) const {
    constexpr int kLine = 64;  // elements of a 128-byte line
    constexpr int kLines = LoraTile::kColumns / kLine;
    for (int i = threadIdx.x - kWarpGroupThreads; i < LoraTile::kRows * kLines;
         i += kCooperativeThreads) {
      const int row = tile.row + i / kLines;
      const int column = tile.column + i % kLines * kLine;
      if (row < a_.num_rows && column < a_.width) prefetch_l2(addend_of(row) + column);
    }
  }

  __device__ const __nv_bfloat16* addend_of(int row) const {
    return static_cast<const __nv_bfloat16*>(a_.addend) + row * a_.addend_stride;
  }

  __device__ void read(int part) {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      addend_[part % 2][i] = {};
      if (is_inside(part, i)) {
        addend_[part % 2][i] = load_vec<8>(addend_of(row_of(i)) + column_of(part, i));
      }
    }
  }

  __device__ void add(int part, Sums& sums) {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      std::uint32_t(&words)[4] = addend_[part % 2][i].words;
      shuffle_words(words);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        sums.values[sum_index(part, i, j)] += low_bfloat16(words[j]);
        sums.values[sum_index(part, i, j) + 1] += high_bfloat16(words[j]);
      }
    }
  }

  __device__ void add_bias(int part, Sums& sums) const {
    const auto* const bias = static_cast<const std::uint32_t*>(a_.bias);
#pragma unroll
    for (int i = 0; i < kVectors; i += 2) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int column = column_ + part * kPartColumns + i / 2 * 32 + j * 8 + threadIdx.x % 4 * 2;
        const std::uint32_t word = column < a_.width ? bias[column / 2] : 0;
#pragma unroll
        for (int lower = 0; lower < 2; ++lower) {
          sums.values[sum_index(part, i + lower, j)] += low_bfloat16(word);
          sums.values[sum_index(part, i + lower, j) + 1] += high_bfloat16(word);
        }
      }
    }
  }

  __device__ static std::uint32_t word_of(const Sums& sums, int i) {
    return bfloat16_pair(sums.values[i], sums.values[i + 1]);
  }

  __device__ void store_box(int part, const Sums& sums, __nv_bfloat16 (&box)[kBoxNumel]) const {
    // TMA has read this box; it may still read the other one.
    if (is_leader()) tma_store_wait_read<1>();
    consumer_group_sync();
    const int lane = threadIdx.x % 32;
    const int row = threadIdx.x / 32 % kWarpGroupWarps * 16 + lane % 16;
#pragma unroll
    for (int pair = 0; pair < kPartColumns / 16; ++pair) {
      const int first = 4 * (part * kPartColumns / 8 + 2 * pair);
      const std::uint32_t words[4] = {word_of(sums, first), word_of(sums, first + 2),
                                      word_of(sums, first + 4), word_of(sums, first + 6)};
      store_matrices(shared_address(box) + swizzled_offset(row, 2 * pair + lane / 16), words);
    }
    fence_proxy_async();
    consumer_group_sync();
    if (is_leader()) {
      tma_store_2d(a_.out_map, column_ + part * kPartColumns, top_, box);
      tma_store_commit();
    }
  }

  const LoraGemmKernelArguments& a_;
  int column_;
  int top_;  // the warp group's first row
  int row_;  // the thread's first row
  Vec<__nv_bfloat16, 8> addend_[2][kVectors];
};

}  // namespace packtrain::device
