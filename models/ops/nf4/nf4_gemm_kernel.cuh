// The kernel of nf4_gemm.cu: out^T = weight left^T (forward) or weight^T left^T (backward).
//
// A block has 128 columns of `out` and kTokens rows. Its depth is a part of the whole one. The
// blocks of a cluster have the other parts, and add the sums up over distributed shared memory. One
// warp group decodes stages of the weight into shared memory. Two others multiply, 64 columns each.
// In backward the stage has the same layout, and the weight is an MN-major operand.
//
// Decoding in registers of the groups that multiply, as an operand of wgmma, took 3 % longer.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "framework/device/cuda/bfloat16.cuh"
#include "models/ops/cuda/cluster.cuh"
#include "models/ops/nf4/nf4_gemm_decoder.cuh"

namespace packtrain::device {

// Multiplies the stages of a consumer warp group.
template <bool kForward, int kTokens>
class Nf4Consumer {
 public:
  using Sums = Accumulator<kTokens>;
  using Storage = Nf4GemmStorage<kTokens>;

  __device__ explicit Nf4Consumer(Storage& memory) : memory_(memory) {}

  // `num_stages` is at least 1. All wgmma have ended when it returns.
  __device__ void run(int num_stages, Sums& sums) {
    constexpr Major kWeight = kForward ? Major::kK : Major::kMN;
    const int box = (static_cast<int>(threadIdx.x) - kWarpGroupThreads) / kWarpGroupThreads;
    for (int i = 0; i < num_stages; ++i) {
      const Nf4Stage<kTokens>& stage = memory_.stages[i % kStages];
      memory_.full[i % kStages].wait(i / kStages % 2);
      const std::uint32_t weight = shared_address(stage.weight) + box * kBoxBytes;
      const std::uint32_t left = shared_address(stage.left);
      warpgroup_arrive(sums);
#pragma unroll
      for (int step = 0; step < kStageSteps; ++step) {
        wgmma<kWeight, Major::kK>(sums, operand<kWeight>(weight, step),
                                  operand<Major::kK>(left, step), i > 0 || step > 0);
      }
      warpgroup_commit_batch();
      warpgroup_wait<1>(sums);
      if (i > 0 && threadIdx.x % 32 == 0) memory_.empty[(i - 1) % kStages].arrive();
    }
    warpgroup_wait<0>(sums);
  }

 private:
  static constexpr int kStages = Storage::kStages;

  Storage& memory_;
};

// Adds the sums of the blocks of a cluster, in the order of their parts of the depth. Block q ends
// with those of the q-th part of the tokens. All threads of the cluster call exchange().
template <int kTokens>
class Nf4ClusterSums {
 public:
  using Sums = Accumulator<kTokens>;
  static constexpr int kVectors = kTokens / 8;  // of four sums: two tokens of two columns

  // The stages' memory. Nothing else uses it any more.
  __device__ Nf4ClusterSums(void* memory) : memory_(static_cast<float4*>(memory)) {}

  __device__ void write(const Sums& sums) {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      memory_[i * kCooperativeThreads + thread()] =
          make_float4(sums.values[4 * i], sums.values[4 * i + 1], sums.values[4 * i + 2],
                      sums.values[4 * i + 3]);
    }
  }

  __device__ float4 total(int i, int num_parts) const {
    float4 sum = read(i, 0);
    for (int part = 1; part < num_parts; ++part) {
      const float4 more = read(i, part);
      sum = make_float4(sum.x + more.x, sum.y + more.y, sum.z + more.z, sum.w + more.w);
    }
    return sum;
  }

 private:
  __device__ static int thread() { return static_cast<int>(threadIdx.x) - kWarpGroupThreads; }

  __device__ float4 read(int i, int part) const {
    const std::uint32_t here = shared_address(memory_ + i * kCooperativeThreads + thread());
    std::uint32_t there = 0;
    float4 value;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(part));
    asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
                 : "r"(there)
                 : "memory");
    return value;
  }

  float4* memory_;
};

// Adds bias and addend, rounds once, and writes. Neighbouring lanes of a column exchange sums, so
// that each writes two neighbouring columns of one token.
class Nf4Output {
 public:
  __device__ Nf4Output(const Nf4GemmKernelArguments& a, int column, int token)
      : a_(a), is_odd_(threadIdx.x / 4 % 2 != 0) {
    const int warp = (static_cast<int>(threadIdx.x) - kWarpGroupThreads) / 32;
    column_ = column + warp * 16 + static_cast<int>(threadIdx.x) % 32 / 8 * 2;
    token_ = token + static_cast<int>(threadIdx.x) % 4 * 2 + (is_odd_ ? 1 : 0);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (a.bias != nullptr && column_ + 8 * i < a.width) {
        bias_[i] = static_cast<const std::uint32_t*>(a.bias)[column_ / 2 + 4 * i];
      }
    }
  }

  // Two tokens of the i-th eight: x and y are those of row r of the fragment, z and w of r + 8. All
  // threads of a warp call it.
  __device__ void write(int i, const float4& sums) const {
    write_pair(i, 0, exchange(sums.x, sums.y));
    write_pair(i, 1, exchange(sums.z, sums.w));
  }

 private:
  // Even lanes get both columns of the first token, odd lanes of the second.
  __device__ float2 exchange(float first, float second) const {
    const float got = __shfl_xor_sync(~0U, is_odd_ ? first : second, 4);
    return is_odd_ ? make_float2(got, second) : make_float2(first, got);
  }

  __device__ void write_pair(int i, int half, float2 sums) const {
    const int token = token_ + 8 * i;
    const int column = column_ + 8 * half;
    if (token >= a_.num_rows || column >= a_.width) return;
    sums.x += low_bfloat16(bias_[half]);
    sums.y += high_bfloat16(bias_[half]);
    if (a_.addend != nullptr) {
      const std::uint32_t addend = *reinterpret_cast<const std::uint32_t*>(
          static_cast<const __nv_bfloat16*>(a_.addend) + token * a_.addend_stride + column);
      sums.x += low_bfloat16(addend);
      sums.y += high_bfloat16(addend);
    }
    *reinterpret_cast<std::uint32_t*>(static_cast<__nv_bfloat16*>(a_.out) + token * a_.out_stride +
                                      column) = bfloat16_pair(sums.x, sums.y);
  }

  const Nf4GemmKernelArguments& a_;
  bool is_odd_;
  int column_;
  int token_;
  std::uint32_t bias_[2] = {};
};

__device__ const Nf4Tables kNf4DeviceTables = make_nf4_tables();

template <typename Storage>
__device__ void nf4_gemm_start(Storage& memory) {
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < 256) memory.absmax_map[thread] = kNf4DeviceTables.absmax_map[thread];
  if (thread == 0) {
    for (int i = 0; i < Storage::kStages; ++i) {
      memory.full[i].init(1 +
                          kWarpGroupThreads);  // bytes of the tokens' rows; each decoder's elements
      memory.empty[i].init(2 * kWarpGroupWarps);
    }
    fence_barrier_init();
  }
  __syncthreads();
}

template <bool kForward, int kTokens>
__global__ void __launch_bounds__(kGemmThreads, 1)
    nf4_gemm_kernel(const __grid_constant__ Nf4GemmKernelArguments a, int num_parts) {
  using Storage = Nf4GemmStorage<kTokens>;
  // Stages start at multiples of 1,024 bytes, as dynamic shared memory does.
  extern __shared__ __align__(1024) unsigned char bytes[];
  Storage& memory = *reinterpret_cast<Storage*>(bytes);
  nf4_gemm_start(memory);
  const int part = block_rank_in_cluster();
  const int first_stage = a.num_stages * part / num_parts;
  const int num_stages = a.num_stages * (part + 1) / num_parts - first_stage;
  const int column = static_cast<int>(blockIdx.z) * kNf4TileColumns;
  const int token = static_cast<int>(blockIdx.y) * kTokens;
  constexpr int kDecoderRegisters = 136;
  constexpr int kConsumerRegisters = 184;
  static_assert(kDecoderRegisters + 2 * kConsumerRegisters == 3 * 168);
  if (threadIdx.x < kWarpGroupThreads) {
    warpgroup_reg_dealloc<kDecoderRegisters>();
    Nf4Decoder<kForward, kTokens>(a, memory, column, token, first_stage).run(num_stages);
    __syncwarp();
    if (num_parts > 1) {
      cluster_sync();
      cluster_sync();
    }
    return;
  }
  warpgroup_reg_alloc<kConsumerRegisters>();
  Accumulator<kTokens> sums;
  Nf4Consumer<kForward, kTokens>(memory).run(num_stages, sums);
  const Nf4Output output(a, column, token);
  constexpr int kVectors = Nf4ClusterSums<kTokens>::kVectors;
  if (num_parts == 1) {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      output.write(i, make_float4(sums.values[4 * i], sums.values[4 * i + 1],
                                  sums.values[4 * i + 2], sums.values[4 * i + 3]));
    }
    return;
  }
  cooperative_sync();  // the other group has read its last stage
  Nf4ClusterSums<kTokens> of_cluster(memory.stages);
  of_cluster.write(sums);
  cluster_sync();
  const int end = kVectors * (part + 1) / num_parts;
  for (int i = kVectors * part / num_parts; i < end; ++i) {
    output.write(i, of_cluster.total(i, num_parts));
  }
  cluster_sync();  // other blocks may still read this one's sums
}

}  // namespace packtrain::device
