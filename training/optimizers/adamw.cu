// One pass over the shard, one vector of elements a thread. The kernel is bound by memory. 16-byte
// accesses with enough loads in flight are sufficient.
#include <cuda_bf16.h>

#include <cstdint>

#include "framework/device/cuda/check.h"
#include "models/ops/cuda/vector.cuh"
#include "training/optimizers/adamw_cuda.h"
#include "training/optimizers/stochastic_rounding.h"
#include "training/optimizers/update_pieces.cuh"

namespace packtrain {
namespace {

__device__ void update(const AdamWArguments& a, float decay, float clip_factor, float gradient,
                       float& w, float& m, float& v) {
  const float g = clip_factor * gradient;
  m = a.beta1 * m + a.one_minus_beta1 * g;
  v = a.beta2 * v + a.one_minus_beta2 * g * g;
  w = w * decay - a.step_size * m / (sqrtf(v) * a.inverse_root_bias2 + a.epsilon);
}

template <int N>
__device__ void store_moments(const AdamWArguments& a, const UpdatePiece& /*piece*/, std::int64_t i,
                              const float (&m)[N], const float (&v)[N], float* /*dtype*/) {
  device::store(m, static_cast<float*>(a.exp_avg) + i);
  device::store(v, static_cast<float*>(a.exp_avg_sq) + i);
}

template <int N>
__device__ void store_moments(const AdamWArguments& a, const UpdatePiece& piece, std::int64_t i,
                              const float (&m)[N], const float (&v)[N], __nv_bfloat16* /*dtype*/) {
  using Bits = device::Vec<std::uint16_t, N>;
  const std::int64_t element = i + piece.element_offset;
  Bits first;
  Bits second;
  RandomWords random{};
#pragma unroll
  for (int k = 0; k < N; ++k) {
    if (k % 4 == 0) random = moment_random(a.seed, a.step, (element + k) / 4);
    const std::uint32_t bits = random.values[N == 1 ? element % 4 : k % 4];
    first.values[k] = round_stochastically(__float_as_uint(m[k]), bits);
    second.values[k] = round_stochastically(__float_as_uint(v[k]), bits >> 16);
  }
  *reinterpret_cast<Bits*>(static_cast<std::uint16_t*>(a.exp_avg) + i) = first;
  *reinterpret_cast<Bits*>(static_cast<std::uint16_t*>(a.exp_avg_sq) + i) = second;
}

template <typename Gradient, typename Moment, typename Master, int N>
__global__ void __launch_bounds__(kUpdateThreads)
    adamw_kernel(const __grid_constant__ AdamWArguments a) {
  const std::int64_t i = a.begin + (std::int64_t{kUpdateThreads} * blockIdx.x + threadIdx.x) * N;
  if (i >= a.end()) return;
  const bool skips = *a.skip != 0;  // tested after the other loads are issued
  const float clip_factor = *a.clip_factor;
  const UpdatePiece& piece = a.pieces[find_piece(a, i)];
  const std::uint32_t known = a.amax == nullptr ? 0 : known_amax(a, piece);
  float g[N];
  float w[N];
  float m[N];
  float v[N];
  device::load(static_cast<const Gradient*>(a.grad) + i, g);
  device::load(static_cast<const Master*>(a.master) + i, w);
  device::load(static_cast<const Moment*>(a.exp_avg) + i, m);
  device::load(static_cast<const Moment*>(a.exp_avg_sq) + i, v);
  if (skips) return;
#pragma unroll
  for (int k = 0; k < N; ++k) update(a, piece.decay, clip_factor, g[k], w[k], m[k], v[k]);
  store_master<Master>(a, piece, i, w);
  store_moments(a, piece, i, m, v, static_cast<Moment*>(nullptr));
  if (a.amax != nullptr) enter_amax(a, piece, known, w);
}

bool can_take_runs(const AdamWArguments& a) {
  return aligned(a.master) && aligned(a.grad) && aligned(a.exp_avg) && aligned(a.exp_avg_sq) &&
         aligned(a.weight) && has_whole_vectors(a);
}

}  // namespace

void launch_adamw(const AdamWArguments& arguments, void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  const auto launch = [&](auto gradient, auto moment, auto master, auto elements, unsigned blocks) {
    adamw_kernel<decltype(gradient), decltype(moment), decltype(master), elements()>
        <<<blocks, kUpdateThreads, 0, on>>>(arguments);
  };
  launch_update(arguments, arguments.moments_dtype, can_take_runs(arguments), launch);
}

}  // namespace packtrain
