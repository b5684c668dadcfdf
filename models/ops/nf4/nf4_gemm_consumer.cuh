// What the other warp groups of nf4_gemm_kernel.cuh do: they decode and multiply.
#pragma once

#include <cstdint>

#include "models/ops/cuda/hopper/fragment.cuh"
#include "models/ops/nf4/nf4_gemm_storage.cuh"

namespace packtrain::device {

// Decodes the left operand of a stage: four steps of 16 elements, four words each (wgmma.cuh).
template <bool kForward, int kTokens>
class Nf4Decoder {
 public:
  static constexpr int kWords = 4 * kStageSteps;

  __device__ explicit Nf4Decoder(const float* quantiles) : quantiles_(quantiles) {}

  __device__ void decode(const Nf4Stage<kTokens>& stage, std::uint32_t (&words)[kWords]) const {
    if constexpr (kForward) {
      decode_rows(stage, words);
    } else {
      decode_columns(stage, words);
    }
  }

 private:
  // The element of bits [4, 8) or [0, 4), as its place in the table of quantiles.
  __device__ float high(std::uint32_t byte) const { return quantile(byte >> 2 & 0x3cU); }
  __device__ float low(std::uint32_t byte) const { return quantile(byte << 2 & 0x3cU); }
  __device__ float quantile(std::uint32_t offset) const {
    return *reinterpret_cast<const float*>(reinterpret_cast<const char*>(quantiles_) + offset);
  }

  // Rows r and r + 8 are blocks of their own. A word of codes has 8 elements of a row, of which
  // this thread needs one byte.
  __device__ void decode_rows(const Nf4Stage<kTokens>& stage,
                              std::uint32_t (&words)[kWords]) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int first = (static_cast<int>(threadIdx.x) / 32 - kWarpGroupWarps) * 16 + lane / 4;
    const int shift = lane % 4 * 8;
#pragma unroll
    for (int lower = 0; lower < 2; ++lower) {
      const int block = first + 8 * lower;
      const float absmax = stage.absmax[block];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint4 codes =
            *reinterpret_cast<const uint4*>(stage.codes + nf4_half_offset(block, half));
        const std::uint32_t of_half[4] = {codes.x, codes.y, codes.z, codes.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const std::uint32_t byte = of_half[i] >> shift;
          words[4 * (2 * half + i / 2) + i % 2 * 2 + lower] =
              bfloat16_pair(high(byte) * absmax, low(byte) * absmax);
        }
      }
    }
  }

  // Each row of the stage's 64 is a block, and a step has two neighbouring rows twice.
  __device__ void decode_columns(const Nf4Stage<kTokens>& stage,
                                 std::uint32_t (&words)[kWords]) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int warp = static_cast<int>(threadIdx.x) / 32 - kWarpGroupWarps;
    const int first = warp / kWarpGroupWarps * kNf4GroupColumns + lane % 4 * 2;
    const int byte_in_block = warp % kWarpGroupWarps * 8 + lane / 4;
#pragma unroll
    for (int i = 0; i < 2 * kStageSteps; ++i) {
      const int block = first + 8 * i;
      const float2 absmax = *reinterpret_cast<const float2*>(stage.absmax + block);
      // Both blocks of the pair have their halves in the same order.
      const int at = nf4_half_offset(block, byte_in_block / 16) + byte_in_block % 16;
      const std::uint32_t byte = stage.codes[at];
      const std::uint32_t next = stage.codes[at + kNf4BlockBytes];
      words[4 * (i / 2) + i % 2 * 2] = bfloat16_pair(high(byte) * absmax.x, high(next) * absmax.y);
      words[4 * (i / 2) + i % 2 * 2 + 1] =
          bfloat16_pair(low(byte) * absmax.x, low(next) * absmax.y);
    }
  }

  const float* quantiles_;
};

// Decodes and multiplies the stages of a consumer warp group.
template <bool kForward, int kTokens>
class Nf4Consumer {
 public:
  using Sums = Accumulator<kTokens>;
  using Storage = Nf4GemmStorage<kTokens>;
  using Decoder = Nf4Decoder<kForward, kTokens>;

  __device__ explicit Nf4Consumer(Storage& memory) : memory_(memory), decoder_(memory.quantiles) {}

  // `num_stages` is at least 1. All wgmma have ended when it returns.
  __device__ void run(int num_stages, Sums& sums) {
    std::uint32_t words[Decoder::kWords] = {};
    for (int i = 0; i < num_stages; ++i) multiply(i, sums, words);
    warpgroup_wait<0>(sums);
  }

 private:
  // A stage is decoded while the wgmma of the stage before run.
  __device__ void multiply(int i, Sums& sums, std::uint32_t (&words)[Decoder::kWords]) {
    const int at = i % kNf4Stages;
    const Nf4Stage<kTokens>& stage = memory_.stages[at];
    std::uint32_t decoded[Decoder::kWords];
    memory_.full[at].wait(i / kNf4Stages % 2);
    decoder_.decode(stage, decoded);
    warpgroup_wait<0>(sums);
    if (i > 0 && threadIdx.x % 32 == 0) memory_.empty[(i - 1) % kNf4Stages].arrive();
    replace(words, decoded);
    const std::uint32_t left = shared_address(stage.left);
    warpgroup_arrive(sums);
#pragma unroll
    for (int step = 0; step < kStageSteps; ++step) {
      wgmma_from_registers(sums, words + 4 * step, make_smem_descriptor_k(left + step * 32),
                           i > 0 || step > 0);
    }
    warpgroup_commit_batch();
  }

  // wgmma read `words` asynchronously until warpgroup_wait, which the compiler does not know. If it
  // gave `decoded` the same registers, wgmma would read those of the next stage. So the new words
  // depend on the old ones, and on a value that is loaded after the wait.
  __device__ void replace(std::uint32_t (&words)[Decoder::kWords],
                          const std::uint32_t (&decoded)[Decoder::kWords]) const {
    std::uint32_t zero = 0;
    asm volatile("ld.volatile.shared.u32 %0, [%1];"
                 : "=r"(zero)
                 : "r"(shared_address(&memory_.zero))
                 : "memory");
#pragma unroll
    for (int i = 0; i < Decoder::kWords; ++i) words[i] = decoded[i] ^ (words[i] & zero);
  }

  Storage& memory_;
  Decoder decoder_;
};

}  // namespace packtrain::device
