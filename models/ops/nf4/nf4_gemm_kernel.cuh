// The kernel of nf4_gemm.cu: out^T = weight left^T (forward) or weight^T left^T (backward). The
// weight is the left operand of wgmma and comes from registers, where it is decoded. The tokens'
// rows are the right operand, in shared memory.
//
// A block has 128 columns of `out` and kTokens rows. Its depth is a part of the whole one. The
// blocks of a cluster have the other parts, and add the sums up over distributed shared memory.
// Three warp groups: the first copies, two decode and multiply 64 columns each.
//
// Rows r and r + 8 of a warp's 16 rows of the accumulator are neighbouring columns of `out`. So
// both halves of a byte of codes belong to one thread in backward, and `out` is written in words.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "framework/device/cuda/bfloat16.cuh"
#include "models/ops/cuda/cluster.cuh"
#include "models/ops/nf4/nf4_gemm_consumer.cuh"
#include "models/ops/nf4/nf4_gemm_producer.cuh"

namespace packtrain::device {

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

// Adds bias and addend, rounds once, and writes.
class Nf4Output {
 public:
  __device__ Nf4Output(const Nf4GemmKernelArguments& a, int column, int token)
      : a_(a),
        column_(column + (static_cast<int>(threadIdx.x) / 32 - kWarpGroupWarps) * 16 +
                static_cast<int>(threadIdx.x) % 32 / 4 * 2),
        token_(token + static_cast<int>(threadIdx.x) % 4 * 2) {
    if (a.bias != nullptr && column_ < a.width) {
      bias_ = static_cast<const std::uint32_t*>(a.bias)[column_ / 2];
    }
  }

  // Two tokens of the i-th eight: x and y are those of the first column, z and w of the second.
  __device__ void write(int i, const float4& sums) const {
    write_row(token_ + 8 * i, sums.x, sums.z);
    write_row(token_ + 8 * i + 1, sums.y, sums.w);
  }

 private:
  __device__ void write_row(int token, float first, float second) const {
    if (token >= a_.num_rows || column_ >= a_.width) return;
    first += low_bfloat16(bias_);
    second += high_bfloat16(bias_);
    if (a_.addend != nullptr) {
      const std::uint32_t addend = *reinterpret_cast<const std::uint32_t*>(
          static_cast<const __nv_bfloat16*>(a_.addend) + token * a_.addend_stride + column_);
      first += low_bfloat16(addend);
      second += high_bfloat16(addend);
    }
    *reinterpret_cast<std::uint32_t*>(static_cast<__nv_bfloat16*>(a_.out) + token * a_.out_stride +
                                      column_) = bfloat16_pair(first, second);
  }

  const Nf4GemmKernelArguments& a_;
  int column_;
  int token_;
  std::uint32_t bias_ = 0;
};

template <typename Storage>
__device__ void nf4_gemm_start(Storage& memory) {
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < 256) memory.absmax_map[thread] = kNf4DeviceTables.absmax_map[thread];
  if (thread < 16) memory.quantiles[thread] = kNf4DeviceTables.quantiles[thread];
  if (thread == 0) {
    memory.zero = 0;
    for (int i = 0; i < kNf4Stages; ++i) {
      memory.full[i].init(1 + kWarpGroupThreads);  // bytes of the left operand; each block's copies
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
  Accumulator<kTokens> sums;
  constexpr int kProducerRegisters = 56;
  constexpr int kConsumerRegisters = 224;
  static_assert(kProducerRegisters + 2 * kConsumerRegisters == 3 * 168);
  if (threadIdx.x < kWarpGroupThreads) {
    warpgroup_reg_dealloc<kProducerRegisters>();
    Nf4Producer<kForward, kTokens>(a, memory, column, token, first_stage).run(num_stages);
    __syncwarp();
    if (num_parts > 1) {
      cluster_sync();
      cluster_sync();
    }
    return;
  }
  warpgroup_reg_alloc<kConsumerRegisters>();
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
