// What the first warp group of nf4_gemm_kernel.cuh does: it decodes the weight.
#pragma once

#include <cstdint>

#include "models/ops/cuda/hopper/fragment.cuh"
#include "models/ops/nf4/nf4_gemm_storage.cuh"

namespace packtrain::device {

// A block of 64 elements of a weight: its group, and its place there.
class Nf4Place {
 public:
  __device__ Nf4Place(const Nf4Weight& weight, int row, int block_in_row)
      : row_(row), block_in_row_(block_in_row) {
    find(weight);
  }

  __device__ const float2* header() const { return reinterpret_cast<const float2*>(group_); }
  // The word of four absmax codes that has the block's, and where it has it.
  __device__ const std::uint32_t* absmax_word() const {
    return reinterpret_cast<const std::uint32_t*>(group_ + kNf4HeaderBytes + (in_group_ & ~3));
  }
  __device__ int byte_in_word() const { return in_group_ % 4; }
  __device__ const uint4* codes() const {
    return reinterpret_cast<const uint4*>(group_ + kNf4HeaderBytes + kNf4GroupBlocks +
                                          in_group_ * kNf4BlockBytes);
  }

  // To the next block of the row. Returns whether it is in another group.
  __device__ bool next_block() {
    if (++in_group_ < kNf4GroupBlocks) return false;
    in_group_ = 0;
    group_ += kNf4GroupBytes;
    return true;
  }
  // To the same block 64 rows below. These are whole groups, because rows are whole words of absmax
  // codes.
  __device__ void next_rows(const Nf4Weight& weight) {
    row_ += kStageDepth;
    if (row_ < end_) {
      group_ += weight.num_columns / kRowStep * kNf4GroupBytes;
    } else if (row_ < weight.num_rows) {
      find(weight);
    }
  }

 private:
  __device__ void find(const Nf4Weight& weight) {
    int range = 0;
    while (range + 1 < weight.num_ranges && row_ >= weight.first_row[range + 1]) ++range;
    end_ = weight.first_row[range + 1];
    const std::int64_t block = std::int64_t{row_ - weight.first_row[range]} *
                                   (weight.num_columns / static_cast<int>(kNf4BlockElements)) +
                               block_in_row_;
    in_group_ = static_cast<int>(block % kNf4GroupBlocks);
    group_ = weight.groups + (weight.first_group[range] + block / kNf4GroupBlocks) * kNf4GroupBytes;
  }

  // Elements of 64 rows in each group.
  static constexpr int kRowStep = static_cast<int>(kNf4GroupElements) / kStageDepth;

  int row_;
  int block_in_row_;  // where the place was found
  int end_ = 0;       // of the rows of its range
  int in_group_ = 0;
  const std::uint8_t* group_ = nullptr;
};

__device__ inline std::uint32_t byte_permute(std::uint32_t a, std::uint32_t b,
                                             std::uint32_t selector) {
  std::uint32_t bytes = 0;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(a), "r"(b), "r"(selector));
  return bytes;
}

// The 16 decoded values of a block, in registers: their lower bytes and their upper bytes. A
// selection of bytes looks up four codes.
class Nf4ByteTable {
 public:
  __device__ explicit Nf4ByteTable(float absmax) {
    constexpr Nf4Tables kTables = make_nf4_tables();
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t first =
          bfloat16_pair(kTables.quantiles[4 * i] * absmax, kTables.quantiles[4 * i + 1] * absmax);
      const std::uint32_t second = bfloat16_pair(kTables.quantiles[4 * i + 2] * absmax,
                                                 kTables.quantiles[4 * i + 3] * absmax);
      lower_[i] = byte_permute(first, second, 0x6420U);
      upper_[i] = byte_permute(first, second, 0x7531U);
    }
  }

  // The eight elements of four bytes. The first of two is in the higher half of its byte.
  __device__ uint4 decode(std::uint32_t bytes) const {
    // A selector has three bits. The fourth bit of a code chooses between both halves of the table:
    // the sign of its byte, repeated.
    const std::uint32_t shifted = bytes << 4;
    const std::uint32_t selectors = bytes & 0x77777777U;
    const uint2 first = decode_four(selectors, byte_permute(bytes, shifted, 0x9d8cU));
    const uint2 second = decode_four(selectors >> 16, byte_permute(bytes, shifted, 0xbfaeU));
    return make_uint4(first.x, first.y, second.x, second.y);
  }

 private:
  __device__ uint2 decode_four(std::uint32_t selectors, std::uint32_t is_upper_half) const {
    const std::uint32_t lower = look_up(lower_, selectors, is_upper_half);
    const std::uint32_t upper = look_up(upper_, selectors, is_upper_half);
    return make_uint2(byte_permute(lower, upper, 0x4051U), byte_permute(lower, upper, 0x6273U));
  }
  __device__ static std::uint32_t look_up(const std::uint32_t (&table)[4], std::uint32_t selectors,
                                          std::uint32_t is_upper_half) {
    return (byte_permute(table[0], table[1], selectors) & ~is_upper_half) |
           (byte_permute(table[2], table[3], selectors) & is_upper_half);
  }

  std::uint32_t lower_[4];
  std::uint32_t upper_[4];
};

// Each thread has a block of 64 elements of a stage. It reads them several stages ahead. One of the
// threads also starts the copies of the tokens' rows.
template <bool kForward, int kTokens>
class Nf4Decoder {
 public:
  using Storage = Nf4GemmStorage<kTokens>;

  __device__ Nf4Decoder(const Nf4GemmKernelArguments& a, Storage& memory, int column, int token,
                        int first_stage)
      : a_(a),
        memory_(memory),
        token_(token),
        first_stage_(first_stage),
        place_(a.weight, first_row(column), kForward ? first_stage : tile_block(column) + box()) {}

  __device__ void run(int num_stages) {
    Encoded ahead[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (i < num_stages) ahead[i] = read();
    }
    for (int i = 0; i < num_stages; i += kAhead) {
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
        if (i + j >= num_stages) break;
        const Encoded now = ahead[j];
        if (i + j + kAhead < num_stages) ahead[j] = read();
        fill(i + j, now);
      }
    }
  }

 private:
  static constexpr int kAhead = 4;
  static constexpr int kStages = Storage::kStages;

  struct Encoded {
    uint4 codes[2];
    float2 header;  // nested absmax and offset
    std::uint32_t absmax_word;
    int byte;
  };

  __device__ static int thread() { return static_cast<int>(threadIdx.x); }
  // Forward: a thread has a row. Backward: two threads have a row of two boxes.
  __device__ static int box() { return kForward ? thread() / 64 : thread() % 2; }
  __device__ static int row_in_box() { return kForward ? thread() % 64 : thread() / 2; }

  __device__ int first_row(int column) const {
    if (!kForward) return first_stage_ * kStageDepth + row_in_box();
    return min(column + thread(), a_.weight.num_rows - 1);
  }
  __device__ int tile_block(int column) const {
    const int last = a_.weight.num_columns / static_cast<int>(kNf4BlockElements) - 2;
    return min(column / static_cast<int>(kNf4BlockElements), last);
  }

  // This thread's elements of the next stage.
  __device__ Encoded read() {
    if (!kForward || is_new_word_) word_ = __ldg(place_.absmax_word());
    if (!kForward || is_new_group_) header_ = __ldg(place_.header());
    const Encoded encoded{
        {__ldg(place_.codes()), __ldg(place_.codes() + 1)}, header_, word_, place_.byte_in_word()};
    if constexpr (kForward) {
      is_new_group_ = place_.next_block();
      is_new_word_ = place_.byte_in_word() == 0;
    } else {
      place_.next_rows(a_.weight);
    }
    return encoded;
  }

  __device__ void fill(int i, const Encoded& encoded) {
    Nf4Stage<kTokens>& stage = memory_.stages[i % kStages];
    Barrier& full = memory_.full[i % kStages];
    const float absmax =
        __fadd_rn(__fmul_rn(memory_.absmax_map[encoded.absmax_word >> 8 * encoded.byte & 255U],
                            encoded.header.x),
                  encoded.header.y);
    const Nf4ByteTable table(absmax);
    memory_.empty[i % kStages].wait(i / kStages % 2 ^ 1);
    if (thread() == 0) {
      full.arrive_and_expect_tx(sizeof(stage.left));
      tma_load_2d(a_.left_map, (first_stage_ + i) * kStageDepth, token_, stage.left, full);
    }
    store(table, encoded, reinterpret_cast<char*>(stage.weight + box() * kBoxNumel));
    fence_proxy_async();
    full.arrive();
  }

  // Eight stores of 16 bytes. In backward neighbouring threads have the same row of two boxes. They
  // begin at different halves of it, so that a store has all banks once.
  __device__ void store(const Nf4ByteTable& table, const Encoded& encoded, char* box_bytes) const {
    const bool swaps = !kForward && box() == 1;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const uint4& first = encoded.codes[i / 4];
      const uint4& other = encoded.codes[1 - i / 4];
      const uint4& words = swaps ? other : first;
      const std::uint32_t word = i % 4 == 0   ? words.x
                                 : i % 4 == 1 ? words.y
                                 : i % 4 == 2 ? words.z
                                              : words.w;
      const int chunk = swaps ? i ^ 4 : i;
      *reinterpret_cast<uint4*>(box_bytes + swizzled_offset(row_in_box(), chunk)) =
          table.decode(word);
    }
  }

  const Nf4GemmKernelArguments& a_;
  Storage& memory_;
  int token_;
  int first_stage_;
  Nf4Place place_;
  bool is_new_group_ = true;
  bool is_new_word_ = true;
  float2 header_ = {};
  std::uint32_t word_ = 0;
};

}  // namespace packtrain::device
