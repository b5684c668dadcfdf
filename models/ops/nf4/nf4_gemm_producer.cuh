// What the first warp group of nf4_gemm_kernel.cuh does: copies.
#pragma once

#include <cstdint>

#include "models/ops/cuda/async_copy.cuh"
#include "models/ops/nf4/nf4_gemm_storage.cuh"

namespace packtrain::device {

// A row, and the number of its first block of 64 elements, counted over all groups.
class Nf4Row {
 public:
  __device__ Nf4Row(const Nf4Weight& weight, int row) : row_(row) { find(weight); }

  __device__ std::int64_t first_block() const { return block_; }

  __device__ void advance(const Nf4Weight& weight, int num_rows) {
    row_ += num_rows;
    block_ += num_rows * (weight.num_columns / static_cast<int>(kNf4BlockElements));
    if (row_ >= end_ && row_ < weight.num_rows) find(weight);
  }

 private:
  __device__ void find(const Nf4Weight& weight) {
    int range = 0;
    while (range + 1 < weight.num_ranges && row_ >= weight.first_row[range + 1]) ++range;
    end_ = weight.first_row[range + 1];
    block_ = weight.first_group[range] * kNf4GroupBlocks +
             std::int64_t{row_ - weight.first_row[range]} *
                 (weight.num_columns / static_cast<int>(kNf4BlockElements));
  }

  int row_;
  int end_ = 0;
  std::int64_t block_ = 0;
};

__device__ inline const std::uint8_t* nf4_header(const Nf4Weight& weight, std::int64_t block) {
  return weight.groups + block / kNf4GroupBlocks * kNf4GroupBytes;
}
// The word that has the absmax codes of this block and its neighbours.
__device__ inline const std::uint8_t* nf4_absmax_word(const Nf4Weight& weight, std::int64_t block) {
  return nf4_header(weight, block) + kNf4HeaderBytes + (block % kNf4GroupBlocks & ~3);
}
__device__ inline const std::uint8_t* nf4_codes(const Nf4Weight& weight, std::int64_t block) {
  return nf4_header(weight, block) + kNf4HeaderBytes + kNf4GroupBlocks +
         block % kNf4GroupBlocks * kNf4BlockBytes;
}

template <int kBytes>
__device__ void cp_async_small(const void* from, void* to) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(shared_address(to)), "l"(from),
               "n"(kBytes)
               : "memory");
}

// Copies operands to the stages, by all threads of the first warp group. One of them starts the
// copies of the tokens' rows.
template <bool kForward, int kTokens>
class Nf4Producer {
 public:
  using Storage = Nf4GemmStorage<kTokens>;

  __device__ Nf4Producer(const Nf4GemmKernelArguments& a, Storage& memory, int column, int token,
                         int first_stage)
      : a_(a),
        memory_(memory),
        column_(column),
        token_(token),
        first_stage_(first_stage),
        first_block_(kForward ? first_stage : tile_block()),
        copied_{{a.weight, first_row(copy_slot(0))}, {a.weight, first_row(copy_slot(1))}},
        scaled_(a.weight, first_row(kForward ? thread() : thread() % kNf4GroupColumns)) {}

  __device__ void run(int num_stages) {
    for (int i = 0; i < num_stages + kNf4Ahead; ++i) {
      if (i < num_stages) copy(i);
      cp_async_commit_group();
      if (i < kNf4Ahead) continue;
      cp_async_wait_group<kNf4Ahead>();
      publish(i - kNf4Ahead);
    }
  }

 private:
  static constexpr int kCopies = 2;  // of 16 bytes of codes that a thread starts for a stage
  static constexpr int kHalves = kForward ? 2 : 4;  // of blocks that neighbouring threads copy

  __device__ static int thread() { return static_cast<int>(threadIdx.x); }
  __device__ Nf4Stage<kTokens>& stage_of(int i) { return memory_.stages[i % kNf4Stages]; }

  // Neighbouring threads copy neighbouring bytes of a row: the halves of one block, in backward
  // those of two.
  __device__ static int half() { return thread() % 2; }
  __device__ static int copy_slot(int i) {
    const int row = thread() / kHalves + i * kWarpGroupThreads / kHalves;
    return kForward ? row : thread() / 2 % 2 * kNf4GroupColumns + row;
  }

  // The row of a slot in the first stage. Forward: slot 8 h + r of 16 has column 2 r + h of `out`.
  __device__ int first_row(int slot) const {
    if (!kForward) return first_stage_ * kStageDepth + slot % kNf4GroupColumns;
    return min(column_ + slot / 16 * 16 + slot % 8 * 2 + slot / 8 % 2, a_.weight.num_rows - 1);
  }
  // Backward: the first of the two blocks that the tile has of each row.
  __device__ int tile_block() const {
    const int last = a_.weight.num_columns / static_cast<int>(kNf4BlockElements) - 2;
    return min(column_ / static_cast<int>(kNf4BlockElements), last);
  }

  __device__ void copy(int i) {
    Nf4Stage<kTokens>& stage = stage_of(i);
    Barrier& full = memory_.full[i % kNf4Stages];
    memory_.empty[i % kNf4Stages].wait(i / kNf4Stages % 2 ^ 1);
    const int at = first_stage_ + i;
    if (thread() == 0) {
      full.arrive_and_expect_tx(sizeof(stage.left));
      tma_load_2d(a_.left_map, at * kStageDepth, token_, stage.left, full);
    }
#pragma unroll
    for (int j = 0; j < kCopies; ++j) {
      const int slot = copy_slot(j);
      const std::int64_t block =
          copied_[j].first_block() + first_block_ + (kForward ? i : slot / kNf4GroupColumns);
      cp_async(nf4_codes(a_.weight, block) + half() * 16,
               stage.codes + nf4_half_offset(slot, half()), true);
    }
    if (kForward) {
      // A word has the codes of four stages.
      if (i == 0 || at % 4 == 0) copy_word(at / 4, scaled_.first_block() + at);
      return;
    }
    if (thread() < kNf4GroupColumns) copy_word(i, scaled_.first_block() + first_block_);
    for (Nf4Row& row : copied_) row.advance(a_.weight, kStageDepth);
    scaled_.advance(a_.weight, kStageDepth);
  }

  __device__ void copy_word(int i, std::int64_t block) {
    cp_async_small<8>(nf4_header(a_.weight, block), &memory_.headers[i % kNf4Words][thread()]);
    cp_async_small<4>(nf4_absmax_word(a_.weight, block),
                      &memory_.absmax_words[i % kNf4Words][thread()]);
  }

  __device__ void publish(int i) {
    Nf4Stage<kTokens>& stage = stage_of(i);
    const int at = first_stage_ + i;
    if (kForward) {
      stage.absmax[thread()] = absmax(at / 4, at % 4);
    } else if (thread() < kNf4GroupColumns) {
      stage.absmax[thread()] = absmax(i, first_block_ % 4);
      stage.absmax[thread() + kNf4GroupColumns] = absmax(i, first_block_ % 4 + 1);
    }
    memory_.full[i % kNf4Stages].arrive();
  }

  __device__ float absmax(int i, int byte) const {
    const unsigned code = memory_.absmax_words[i % kNf4Words][thread()] >> 8 * byte & 255U;
    const float2 header = memory_.headers[i % kNf4Words][thread()];
    return __fadd_rn(__fmul_rn(memory_.absmax_map[code], header.x), header.y);
  }

  const Nf4GemmKernelArguments& a_;
  Storage& memory_;
  int column_;
  int token_;
  int first_stage_;
  int first_block_;  // of each row: forward of the first stage, backward of the tile
  Nf4Row copied_[kCopies];
  Nf4Row scaled_;
};

}  // namespace packtrain::device
