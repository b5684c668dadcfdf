// Adds what the blocks of threads of ssd_groups.cu have: the gradients of b and c, and that of g.
#include "framework/device/cuda/check.h"
#include "models/ops/mamba2/tensor_cores/ssd_chunk_tiles.cuh"

namespace packtrain {
namespace {

constexpr int kRows = kSsdStateTile;  // of a chunk
constexpr int kSumThreads = 128;
constexpr int kDecayThreads = 256;

// A thread adds the parts of two elements of a row, of db where blockIdx.y is 0, else of dc.
__global__ void __launch_bounds__(kSumThreads)
    ssd_group_sums_kernel(const __grid_constant__ SsdTensorCoreArguments a) {
  const std::int64_t width = std::int64_t{a.num_groups} * a.state_dim;
  const std::int64_t at = 2 * (std::int64_t{blockIdx.x} * kSumThreads + threadIdx.x);
  if (at >= a.num_rows * width) return;
  const bool of_c = blockIdx.y != 0;
  const float* const from = a.grad_parts + (of_c ? 2 * a.head_parts : 0) * a.num_rows * width + at;
  float2 sum = {};
  for (int part = 0; part < 2 * a.head_parts; ++part) {
    const auto pair = *reinterpret_cast<const float2*>(from + part * a.num_rows * width);
    sum = {sum.x + pair.x, sum.y + pair.y};
  }
  __nv_bfloat16* const to = device::elements(of_c ? a.grad_c : a.grad_b) +
                            at / width * (of_c ? a.grad_c_stride : a.grad_b_stride) + at % width;
  *reinterpret_cast<std::uint32_t*>(to) = device::bfloat16_pair(sum.x, sum.y);
}

// da of row i of a head, without what the end of its chunk adds.
__device__ float grad_of_sum(const SsdTensorCoreArguments& a, std::int64_t at) {
  float sum = -a.steps[at] * a.grad_steps[at];
  for (int part = 0; part < a.row_parts; ++part) {
    sum += a.row_products[part * a.num_rows * a.num_heads + at];
  }
  return sum;
}

// S' dS' of a head.
__device__ float state_product(const SsdTensorCoreArguments& a, int slot, int head) {
  const float* const parts =
      a.state_products + (std::int64_t{slot} * a.num_heads + head) * a.state_parts;
  float sum = 0;
  for (int part = 0; part < a.state_parts; ++part) sum += parts[part];
  return sum;
}

// dg: sums of da over a row and later ones. A block of threads has a chunk and 64 heads.
__global__ void __launch_bounds__(kDecayThreads)
    ssd_grad_decays_kernel(const __grid_constant__ SsdTensorCoreArguments a) {
  __shared__ float grads[kRows][kRows + 1];  // [row, head]
  const int first_head = static_cast<int>(blockIdx.y) * kRows;
  const int num_heads = min(kRows, a.num_heads - first_head);
  const DeltaRuleChunkRows rows = a.chunks[blockIdx.x];
  const std::int64_t first = std::int64_t{rows.first_row} * a.num_heads + first_head;
  const int thread = static_cast<int>(threadIdx.x);
  for (int at = thread; at < kRows * kRows; at += kDecayThreads) {
    const int row = at / kRows, head = at % kRows;
    if (row >= rows.num_rows || head >= num_heads) continue;
    grads[row][head] = grad_of_sum(a, first + std::int64_t{row} * a.num_heads + head);
  }
  __syncthreads();
  if (thread < num_heads) {
    float sum = rows.slot_after < 0 ? 0 : state_product(a, rows.slot_after, first_head + thread);
    for (int row = rows.num_rows; row-- > 0;) {
      sum += grads[row][thread];
      // Nothing decays before the first row of a sequence.
      grads[row][thread] = rows.slot_before < 0 && row == 0 ? 0 : sum;
    }
  }
  __syncthreads();
  for (int at = thread; at < kRows * kRows; at += kDecayThreads) {
    const int row = at / kRows, head = at % kRows;
    if (row >= rows.num_rows || head >= num_heads) continue;
    a.grad_g[first + std::int64_t{row} * a.num_heads + head] = grads[row][head];
  }
}

}  // namespace

void launch_ssd_tensor_sums(const SsdTensorCoreArguments& arguments, void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  const std::int64_t pairs = arguments.num_rows * arguments.num_groups * arguments.state_dim / 2;
  const auto blocks = static_cast<unsigned>((pairs + kSumThreads - 1) / kSumThreads);
  ssd_group_sums_kernel<<<dim3(blocks, 2), kSumThreads, 0, on>>>(arguments);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
  const auto heads = static_cast<unsigned>(ssd_tiles_of(arguments.num_heads, kRows));
  ssd_grad_decays_kernel<<<dim3(static_cast<unsigned>(arguments.num_chunks), heads), kDecayThreads,
                           0, on>>>(arguments);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace packtrain
