// One pass over the shard, one vector of elements a thread. Both kernels are bound by memory.
// 16-byte accesses with enough loads in flight are sufficient.
#include <cuda_bf16.h>

#include <cstdint>

#include "framework/device/cuda/check.h"
#include "models/ops/cuda/vector.cuh"
#include "training/optimizers/sophia_cuda.h"
#include "training/optimizers/stochastic_rounding.h"
#include "training/optimizers/unclipped.h"
#include "training/optimizers/update_pieces.cuh"

namespace packtrain {
namespace {

// Adds the warps' counts to many counters, so that few of them wait for each other. Integer sums do
// not depend on the order.
__device__ void add_unclipped(const SophiaArguments& a, int count) {
  const unsigned lanes = __activemask();
  count = __reduce_add_sync(lanes, count);
  const auto warp = (blockIdx.x * kUpdateThreads + threadIdx.x) / 32;
  const bool is_first =
      threadIdx.x % 32 == static_cast<unsigned>(__ffs(static_cast<int>(lanes))) - 1;
  if (is_first) atomicAdd(a.num_unclipped + warp % kUnclippedCounters, count);
}

template <typename Gradient, typename State, typename Master, int N>
__global__ void __launch_bounds__(kUpdateThreads)
    sophia_kernel(const __grid_constant__ SophiaArguments a) {
  const std::int64_t i = a.begin + (std::int64_t{kUpdateThreads} * blockIdx.x + threadIdx.x) * N;
  if (i >= a.end()) return;
  const bool skips = *a.skip != 0;  // tested after the other loads are issued
  const float clip_factor = *a.clip_factor;
  const UpdatePiece& piece = a.pieces[find_piece(a, i)];
  const std::uint32_t known = a.amax == nullptr ? 0 : known_amax(a, piece);
  float g[N];
  float w[N];
  float m[N];
  float h[N];
  device::load(static_cast<const Gradient*>(a.grad) + i, g);
  device::load(static_cast<const Master*>(a.master) + i, w);
  device::load(static_cast<const State*>(a.exp_avg) + i, m);
  device::load(static_cast<const State*>(a.hessian) + i, h);
  if (skips) return;
  int num_unclipped = 0;
#pragma unroll
  for (int k = 0; k < N; ++k) {
    m[k] = a.beta1 * m[k] + a.one_minus_beta1 * (clip_factor * g[k]);
    const float scaled = m[k] / fmaxf(a.gamma * h[k], a.epsilon);
    num_unclipped += fabsf(scaled) < 1.0F ? 1 : 0;
    w[k] = w[k] * piece.decay - a.learning_rate * fmaxf(-1.0F, fminf(scaled, 1.0F));
  }
  store_master<Master>(a, piece, i, w);
  store_state<0>(a, piece, i, m, static_cast<State*>(a.exp_avg));
  if (a.amax != nullptr) enter_amax(a, piece, known, w);
  if (a.num_unclipped != nullptr) add_unclipped(a, num_unclipped);
}

template <typename Gradient, typename State, int N>
__global__ void __launch_bounds__(kUpdateThreads)
    hessian_kernel(const __grid_constant__ SophiaArguments a) {
  const std::int64_t i = a.begin + (std::int64_t{kUpdateThreads} * blockIdx.x + threadIdx.x) * N;
  if (i >= a.end()) return;
  const bool skips = *a.skip != 0;
  const UpdatePiece& piece = a.pieces[find_piece(a, i)];
  float e[N];
  float h[N];
  device::load(static_cast<const Gradient*>(a.grad) + i, e);
  device::load(static_cast<const State*>(a.hessian) + i, h);
  if (skips) return;
#pragma unroll
  for (int k = 0; k < N; ++k) h[k] = a.beta2 * h[k] + a.square_factor * e[k] * e[k];
  store_state<16>(a, piece, i, h, static_cast<State*>(a.hessian));
}

bool takes_vectors(const SophiaArguments& a) {
  return aligned(a.master) && aligned(a.grad) && aligned(a.exp_avg) && aligned(a.hessian) &&
         aligned(a.weight) && has_whole_vectors(a);
}

}  // namespace

void launch_sophia(const SophiaArguments& arguments, void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  const auto launch = [&](auto gradient, auto state, auto master, auto elements, unsigned blocks) {
    using Gradient = decltype(gradient);
    using State = decltype(state);
    constexpr int N = elements();
    if (arguments.pass == SophiaPass::kHessian) {
      hessian_kernel<Gradient, State, N><<<blocks, kUpdateThreads, 0, on>>>(arguments);
    } else {
      sophia_kernel<Gradient, State, decltype(master), N>
          <<<blocks, kUpdateThreads, 0, on>>>(arguments);
    }
  };
  launch_update(arguments, arguments.state_dtype, takes_vectors(arguments), launch);
}

}  // namespace packtrain
