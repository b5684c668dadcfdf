// Decoding is bound by memory. A thread block has a quarter of a group. A thread reads 4 bytes of
// codes and writes their 8 elements, 16 bytes of bfloat16. Neighbours access neighbouring bytes.
// The 16 quantiles are in shared memory, where each has a bank of its own. Quantising runs once a
// run. There a thread has a block of 64 elements.
#include <cuda_bf16.h>

#include "framework/device/cuda/check.h"
#include "models/block/nf4_groups.h"
#include "models/ops/cuda/vector.cuh"
#include "models/ops/nf4/nf4_arithmetic.h"
#include "models/ops/nf4/nf4_launch.h"

namespace packtrain {
namespace {

constexpr int kThreads = 256;
constexpr int kWordElements = 8;
constexpr int kWords = static_cast<int>(kNf4GroupElements) / kWordElements;
constexpr int kVectorElements = 8;
constexpr int kDecodeParts = 4;  // of a group, decoded by thread blocks of their own
static_assert(kThreads == kNf4GroupBlocks, "a thread decodes or quantises the absmax of a block");

__device__ const Nf4Tables kTables = make_nf4_tables();

template <typename T>
__device__ void decode_word(std::uint32_t word, const float* quantiles, float absmax, T* to) {
  float values[kWordElements];
#pragma unroll
  for (int i = 0; i < kWordElements; ++i) {
    // Byte i / 2, whose high half is the first element.
    const int shift = i / 2 * 8 + (i % 2 == 0 ? 4 : 0);
    values[i] = quantiles[word >> shift & 15U] * absmax;
  }
  constexpr int kStore = 16 / static_cast<int>(sizeof(T));
#pragma unroll
  for (int i = 0; i < kWordElements; i += kStore) {
    float part[kStore];
#pragma unroll
    for (int j = 0; j < kStore; ++j) part[j] = values[i + j];
    device::store(part, to + i);
  }
}

// One of 2, 4 or 8 parts of a group takes 1.01, 0.93 and 1.00 of the time of a whole group.
template <typename T>
__global__ void __launch_bounds__(kThreads) nf4_decode_kernel(const Nf4DecodeArguments a) {
  constexpr int kBlocks = static_cast<int>(kNf4GroupBlocks) / kDecodeParts;
  constexpr int kThreadWords = kWords / kDecodeParts / kThreads;
  __shared__ float quantiles[16];
  __shared__ float absmax[kBlocks];
  const int thread = static_cast<int>(threadIdx.x);
  const int group = static_cast<int>(blockIdx.x) / kDecodeParts;
  const int part = static_cast<int>(blockIdx.x) % kDecodeParts;
  const std::uint8_t* bytes = a.groups + group * kNf4GroupBytes;
  const auto* words =
      reinterpret_cast<const std::uint32_t*>(bytes + kNf4HeaderBytes + kNf4GroupBlocks) +
      part * (kWords / kDecodeParts);
  std::uint32_t mine[kThreadWords];
#pragma unroll
  for (int i = 0; i < kThreadWords; ++i) mine[i] = __ldg(words + i * kThreads + thread);
  if (thread < 16) quantiles[thread] = kTables.quantiles[thread];
  if (thread < kBlocks) {
    const float2 header = __ldg(reinterpret_cast<const float2*>(bytes));
    const std::uint8_t code = __ldg(bytes + kNf4HeaderBytes + part * kBlocks + thread);
    absmax[thread] = decoded_absmax(kTables, code, header.x, header.y);
  }
  int range = 0;
  while (range + 1 < a.num_ranges && group >= a.first_group[range + 1]) ++range;
  const std::int64_t in_range = (group - a.first_group[range]) * kNf4GroupElements +
                                part * (kNf4GroupElements / kDecodeParts);
  const std::int64_t numel = a.numel[range] - in_range;
  T* values = static_cast<T*>(a.values) + a.begin[range] + in_range;
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kThreadWords; ++i) {
    const int element = (i * kThreads + thread) * kWordElements;
    if (element >= numel) return;
    decode_word(mine[i], quantiles, absmax[element / kNf4BlockElements], values + element);
  }
}

template <typename T>
__device__ float block_absmax(const T* block) {
  float largest = 0;
  for (int i = 0; i < kNf4BlockElements; i += kVectorElements) {
    float values[kVectorElements];
    device::load(block + i, values);
#pragma unroll
    for (int j = 0; j < kVectorElements; ++j) largest = fmaxf(largest, fabsf(values[j]));
  }
  return largest;
}

template <typename T>
__global__ void __launch_bounds__(kThreads) nf4_absmax_kernel(const Nf4AbsmaxArguments a) {
  const std::int64_t block = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (block >= a.num_blocks) return;
  a.absmax[block] = block_absmax(static_cast<const T*>(a.values) + block * kNf4BlockElements);
}

template <typename T>
__device__ void quantize_block(const T* block, float absmax, std::uint8_t* codes) {
  const float scale = nf4_scale(absmax);
  for (int i = 0; i < kNf4BlockElements; i += kVectorElements) {
    float values[kVectorElements];
    device::load(block + i, values);
#pragma unroll
    for (int j = 0; j < kVectorElements; j += 2) {
      const std::uint8_t high = nf4_code(kTables, values[j] * scale);
      const std::uint8_t low = nf4_code(kTables, values[j + 1] * scale);
      codes[(i + j) / 2] = static_cast<std::uint8_t>(high << 4 | low);
    }
  }
}

// The largest value of a thread block's threads, returned to each.
__device__ float max_of_threads(float value) {
  __shared__ float of_warps[kThreads / 32];
  for (int offset = 16; offset > 0; offset /= 2) {
    value = fmaxf(value, __shfl_xor_sync(~0U, value, offset));
  }
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = value;
  __syncthreads();
  float largest = of_warps[0];
  for (int warp = 1; warp < kThreads / 32; ++warp) largest = fmaxf(largest, of_warps[warp]);
  return largest;
}

template <typename T>
__global__ void __launch_bounds__(kThreads) nf4_quantize_kernel(const Nf4QuantizeArguments a) {
  const std::int64_t block = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  std::uint8_t* group = a.groups + std::int64_t{blockIdx.x} * kNf4GroupBytes;
  std::uint8_t* codes = group + kNf4HeaderBytes + kNf4GroupBlocks;
  const bool exists = block < a.num_blocks;
  float difference = 0;
  if (exists) {
    const T* values = static_cast<const T*>(a.values) + block * kNf4BlockElements;
    const float absmax = block_absmax(values);
    quantize_block(values, absmax, codes + threadIdx.x * (kNf4BlockElements / 2));
    difference = absmax - a.offset;
  }
  const float nested = max_of_threads(fabsf(difference));
  if (threadIdx.x == 0) {
    reinterpret_cast<float*>(group)[0] = nested;
    reinterpret_cast<float*>(group)[1] = a.offset;
  }
  if (!exists) return;
  group[kNf4HeaderBytes + threadIdx.x] =
      nested == 0 ? 0 : absmax_code(kTables, difference, 1.0F / nested);
}

constexpr unsigned num_thread_blocks(std::int64_t num_blocks) {
  return static_cast<unsigned>((num_blocks + kThreads - 1) / kThreads);
}

}  // namespace

void launch_nf4_decode(const Nf4DecodeArguments& arguments, void* stream) {
  const auto num_groups = static_cast<unsigned>(arguments.first_group[arguments.num_ranges]);
  if (num_groups == 0) return;
  auto* on = static_cast<cudaStream_t>(stream);
  if (arguments.type == Nf4Values::kFloat32) {
    nf4_decode_kernel<float><<<num_groups * kDecodeParts, kThreads, 0, on>>>(arguments);
  } else {
    nf4_decode_kernel<__nv_bfloat16><<<num_groups * kDecodeParts, kThreads, 0, on>>>(arguments);
  }
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

void launch_nf4_absmax(const Nf4AbsmaxArguments& arguments, void* stream) {
  const unsigned num_blocks = num_thread_blocks(arguments.num_blocks);
  auto* on = static_cast<cudaStream_t>(stream);
  if (arguments.type == Nf4Values::kFloat32) {
    nf4_absmax_kernel<float><<<num_blocks, kThreads, 0, on>>>(arguments);
  } else {
    nf4_absmax_kernel<__nv_bfloat16><<<num_blocks, kThreads, 0, on>>>(arguments);
  }
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

void launch_nf4_quantize(const Nf4QuantizeArguments& arguments, void* stream) {
  const unsigned num_groups = num_thread_blocks(arguments.num_blocks);
  auto* on = static_cast<cudaStream_t>(stream);
  if (arguments.type == Nf4Values::kFloat32) {
    nf4_quantize_kernel<float><<<num_groups, kThreads, 0, on>>>(arguments);
  } else {
    nf4_quantize_kernel<__nv_bfloat16><<<num_groups, kThreads, 0, on>>>(arguments);
  }
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace packtrain
