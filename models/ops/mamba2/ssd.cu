// Forward of the state space model: running sums of decays, the state that each chunk adds, states
// between chunks, and the output. A block of threads has a chunk, a head and a tile of columns.
// Only the pass over the states of a sequence depends on the chunks before.
#include "framework/device/cuda/check.h"
#include "models/ops/mamba2/ssd_tile.cuh"

namespace packtrain {
namespace {

using device::kSsdThreads;
using device::kSsdTile;

// A thread has a chunk and a head.
__global__ void __launch_bounds__(kSsdThreads)
    ssd_sums_kernel(const __grid_constant__ SsdGeneralArguments a) {
  const int head = static_cast<int>(blockIdx.y * kSsdThreads + threadIdx.x);
  if (head >= a.num_heads) return;
  const DeltaRuleChunkRows rows = a.chunks[blockIdx.x];
  float sum = 0;
  for (int i = 0; i < rows.num_rows; ++i) {
    const std::int64_t at = (std::int64_t{rows.first_row} + i) * a.num_heads + head;
    sum += a.g[at];
    a.sums[at] = sum;
  }
}

// What a chunk adds to the state after it: sum over j of exp(a_L - a_j) b_j u_j^T.
template <typename T>
__global__ void __launch_bounds__(kSsdThreads)
    ssd_states_kernel(const __grid_constant__ SsdGeneralArguments a) {
  const int slot = a.chunks[blockIdx.x].slot_after;
  if (slot < 0) return;
  __shared__ device::SsdShared shared;
  const int head = static_cast<int>(blockIdx.y);
  const device::SsdHeadChunk<T> chunk(a, shared, static_cast<int>(blockIdx.x), head);
  device::write_ssd_state(
      a, shared, chunk.rows(), [&](int n, int j) { return chunk.to_end(j) * chunk.b(j, n); },
      [&](int j, int p) { return chunk.step(j) * chunk.x(j, p); }, a.states, slot, head);
}

// The recurrence over the chunks of a sequence. A thread has an element of a head's state.
__global__ void __launch_bounds__(kSsdThreads)
    ssd_pass_kernel(const __grid_constant__ SsdGeneralArguments a) {
  const std::int64_t size = std::int64_t{a.state_dim} * a.head_dim;
  const std::int64_t at = std::int64_t{blockIdx.z} * kSsdThreads + threadIdx.x;
  if (at >= size) return;
  const DeltaRuleSequence sequence = a.sequences[blockIdx.x];
  const int head = static_cast<int>(blockIdx.y);
  float state = 0;
  for (int i = 0; i + 1 < sequence.num_chunks; ++i) {
    const DeltaRuleChunkRows rows = a.chunks[sequence.first_chunk + i];
    const std::int64_t last = std::int64_t{rows.first_row} + rows.num_rows - 1;
    float* const to = a.states + (std::int64_t{rows.slot_after} * a.num_heads + head) * size + at;
    state = fmaf(expf(a.sums[last * a.num_heads + head]), state, *to);
    *to = state;
  }
}

template <typename T>
__global__ void __launch_bounds__(kSsdThreads)
    ssd_output_kernel(const __grid_constant__ SsdGeneralArguments a) {
  __shared__ device::SsdShared shared;
  const int head = static_cast<int>(blockIdx.y);
  const device::SsdHeadChunk<T> chunk(a, shared, static_cast<int>(blockIdx.x), head);
  const int first = static_cast<int>(blockIdx.z) * kSsdTile;
  chunk.fill_products();
  device::SsdTile tile;
  device::clear(tile);
  chunk.add_output(tile, first);
  device::for_ssd_tile(tile, [&](int i, int p, float& sum) {
    if (i >= chunk.rows() || first + p >= a.head_dim) return;
    const float y = fmaf(a.skip[head], chunk.x(i, first + p), sum);
    static_cast<T*>(a.output)[chunk.scalar_at(i) * a.head_dim + first + p] =
        device::from_float<T>(y);
  });
}

template <typename T>
void launch_states_of(const SsdGeneralArguments& a, cudaStream_t stream) {
  const auto tiles =
      static_cast<unsigned>(device::ssd_tiles(a.state_dim) * device::ssd_tiles(a.head_dim));
  const dim3 grid(static_cast<unsigned>(a.num_chunks), static_cast<unsigned>(a.num_heads), tiles);
  ssd_states_kernel<T><<<grid, kSsdThreads, 0, stream>>>(a);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

template <typename T>
void launch_output_of(const SsdGeneralArguments& a, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(a.num_chunks), static_cast<unsigned>(a.num_heads),
                  static_cast<unsigned>(device::ssd_tiles(a.head_dim)));
  ssd_output_kernel<T><<<grid, kSsdThreads, 0, stream>>>(a);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace

void launch_ssd_states(const SsdGeneralArguments& arguments, void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  const auto heads = static_cast<unsigned>(arguments.num_heads);
  const dim3 grid(static_cast<unsigned>(arguments.num_chunks),
                  (heads + kSsdThreads - 1) / kSsdThreads);
  ssd_sums_kernel<<<grid, kSsdThreads, 0, on>>>(arguments);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
  if (!arguments.has_slots) return;
  arguments.dtype == DataType::kBFloat16 ? launch_states_of<__nv_bfloat16>(arguments, on)
                                         : launch_states_of<float>(arguments, on);
  const int size = arguments.state_dim * arguments.head_dim;
  const dim3 elements(static_cast<unsigned>(arguments.num_sequences), heads,
                      static_cast<unsigned>((size + kSsdThreads - 1) / kSsdThreads));
  ssd_pass_kernel<<<elements, kSsdThreads, 0, on>>>(arguments);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

void launch_ssd_output(const SsdGeneralArguments& arguments, void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  arguments.dtype == DataType::kBFloat16 ? launch_output_of<__nv_bfloat16>(arguments, on)
                                         : launch_output_of<float>(arguments, on);
}

}  // namespace packtrain
