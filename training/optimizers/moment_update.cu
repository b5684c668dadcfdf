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

template <typename Rule, typename Gradient, typename Moment, typename Master, int N>
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
  if constexpr (Rule::kWritesWeight) device::load(static_cast<const Master*>(a.master) + i, w);
  if constexpr (Rule::kHasMoment) device::load(static_cast<const Moment*>(a.moment) + i, m);
  if (skips) return;
#pragma unroll
  for (int k = 0; k < N; ++k) Rule::apply(a, piece.decay, clip, g[k], w[k], m[k]);
  if constexpr (Rule::kHasMoment) {
    store_state<0>(a, piece, i, m, static_cast<Moment*>(a.moment));
  }
  if constexpr (Rule::kWritesGrad) device::store(g, static_cast<Gradient*>(a.grad) + i);
  if constexpr (Rule::kWritesWeight) {
    store_master<Master>(a, piece, i, w);
    if (a.amax != nullptr) enter_amax(a, piece, known, w);
  }
}

bool takes_moment_vectors(const MomentArguments& a) {
  return aligned(a.master) && aligned(a.grad) && aligned(a.moment) && aligned(a.weight) &&
         has_whole_vectors(a);
}

}  // namespace

void launch_moment_update(const MomentArguments& arguments, void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  with_rule(arguments.rule, [&](auto rule) {
    using Rule = decltype(rule);
    const auto launch = [&](auto gradient, auto moment, auto master, auto elements,
                            unsigned blocks) {
      moment_kernel<Rule, decltype(gradient), decltype(moment), decltype(master), elements()>
          <<<blocks, kUpdateThreads, 0, on>>>(arguments);
    };
    launch_update(arguments, arguments.moment_dtype, takes_moment_vectors(arguments), launch);
  });
}

}  // namespace packtrain
