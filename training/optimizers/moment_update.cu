// One pass over the shard, one vector of elements a thread, as AdamW's kernel (adamw.cu).
#include <cuda_bf16.h>

#include <cstdint>

#include "framework/device/cuda/check.h"
#include "models/ops/cuda/vector.cuh"
#include "training/optimizers/moment_update_cuda.h"
#include "training/optimizers/stochastic_rounding.h"
#include "training/optimizers/update_pieces.cuh"

namespace packtrain {
namespace {

template <int N>
__device__ void store_moment(const MomentArguments& a, std::int64_t /*element*/, std::int64_t i,
                             const float (&m)[N], float* /*dtype*/) {
  device::store(m, static_cast<float*>(a.moment) + i);
}

template <int N>
__device__ void store_moment(const MomentArguments& a, std::int64_t element, std::int64_t i,
                             const float (&m)[N], __nv_bfloat16* /*dtype*/) {
  using Bits = device::Vec<std::uint16_t, N>;
  Bits rounded;
  const RandomWords random = moment_random(a.seed, a.step, element / 4);
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const std::uint32_t bits = random.values[N == 1 ? element % 4 : k];
    rounded.values[k] = round_stochastically(__float_as_uint(m[k]), bits);
  }
  *reinterpret_cast<Bits*>(static_cast<std::uint16_t*>(a.moment) + i) = rounded;
}

template <typename Rule, typename Gradient, typename Moment, int N>
__global__ void __launch_bounds__(kUpdateThreads)
    moment_kernel(const __grid_constant__ MomentArguments a) {
  const std::int64_t i = a.begin + (std::int64_t{kUpdateThreads} * blockIdx.x + threadIdx.x) * N;
  if (i >= a.end()) return;
  const bool skips = *a.skip != 0;  // tested after the other loads are issued
  const float clip = *a.clip_factor;
  const UpdatePiece& piece = a.pieces[find_piece(a, i)];
  const std::uint32_t known = a.amax == nullptr ? 0 : known_amax(a, piece);
  float g[N];
  float w[N] = {};
  float m[N] = {};
  device::load(static_cast<const Gradient*>(a.grad) + i, g);
  if constexpr (Rule::kWritesWeight) device::load(a.master + i, w);
  if constexpr (Rule::kHasMoment) device::load(static_cast<const Moment*>(a.moment) + i, m);
  if (skips) return;
#pragma unroll
  for (int k = 0; k < N; ++k) Rule::apply(a, piece.decay, clip, g[k], w[k], m[k]);
  if constexpr (Rule::kHasMoment) {
    store_moment(a, i + piece.element_offset, i, m, static_cast<Moment*>(nullptr));
  }
  if constexpr (Rule::kWritesGrad) device::store(g, static_cast<Gradient*>(a.grad) + i);
  if constexpr (Rule::kWritesWeight) {
    device::store(w, a.master + i);
    if (a.weight != nullptr) device::store(w, static_cast<__nv_bfloat16*>(a.weight) + i);
    if (a.amax != nullptr) enter_amax(a, piece, known, w);
  }
}

template <typename Rule, typename Gradient, typename Moment>
void launch(const MomentArguments& a, cudaStream_t stream) {
  const std::int64_t numel = a.end() - a.begin;
  const auto blocks = [numel](int run) {
    const std::int64_t per_block = std::int64_t{kUpdateThreads} * run;
    return static_cast<unsigned>((numel + per_block - 1) / per_block);
  };
  const bool takes_vectors = aligned(a.master) && aligned(a.grad) && aligned(a.moment) &&
                             aligned(a.weight) && has_whole_vectors(a);
  if (takes_vectors) {
    moment_kernel<Rule, Gradient, Moment, kUpdateVecSize>
        <<<blocks(kUpdateVecSize), kUpdateThreads, 0, stream>>>(a);
  } else {
    moment_kernel<Rule, Gradient, Moment, 1><<<blocks(1), kUpdateThreads, 0, stream>>>(a);
  }
}

template <typename Rule, typename Gradient>
void launch_typed(const MomentArguments& a, cudaStream_t stream) {
  if (a.moment_dtype == DataType::kBFloat16) {
    launch<Rule, Gradient, __nv_bfloat16>(a, stream);
  } else {
    launch<Rule, Gradient, float>(a, stream);
  }
}

}  // namespace

void launch_moment_update(const MomentArguments& arguments, void* stream) {
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  with_rule(arguments.rule, [&](auto rule) {
    using Rule = decltype(rule);
    if (arguments.grad_dtype == DataType::kBFloat16) {
      launch_typed<Rule, __nv_bfloat16>(arguments, cuda_stream);
    } else {
      launch_typed<Rule, float>(arguments, cuda_stream);
    }
  });
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace packtrain
