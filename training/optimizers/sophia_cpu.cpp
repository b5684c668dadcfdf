#include "training/optimizers/sophia_cpu.h"

#include <c10/util/BFloat16.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <type_traits>

#include "training/optimizers/cpu_master.h"
#include "training/optimizers/stochastic_rounding.h"

namespace packtrain {
namespace {

// Bits of float32 state are not used, and none are drawn for it.
template <typename State>
std::uint32_t sophia_random(const SophiaArguments& a, const UpdatePiece& piece, std::int64_t i) {
  if constexpr (std::is_same_v<State, float>) return 0;
  const std::int64_t element = i + piece.element_offset;
  return moment_random(a.seed, a.step, element / 4).values[element % 4];
}

void store_state(float value, std::uint32_t /*random*/, float& target) {
  target = value;
}
void store_state(float value, std::uint32_t random, c10::BFloat16& target) {
  target.x = round_stochastically(std::bit_cast<std::uint32_t>(value), random);
}

template <typename Gradient, typename State>
void update_range(const SophiaArguments& a, const UpdatePiece& piece, std::int64_t begin,
                  std::int64_t end) {
  const float clip_factor = *a.clip_factor;
  const auto* __restrict__ grad = static_cast<const Gradient*>(a.grad);
  const auto* __restrict__ hessian = static_cast<const State*>(a.hessian);
  auto* __restrict__ exp_avg = static_cast<State*>(a.exp_avg);
  CpuMaster masters(a, piece, begin, end);
  float* __restrict__ master = masters.values();
  std::int32_t num_unclipped = 0;
  for (std::int64_t i = begin; i < end; ++i) {
    const float g = clip_factor * static_cast<float>(grad[i]);
    const float m = a.beta1 * static_cast<float>(exp_avg[i]) + a.one_minus_beta1 * g;
    const float scaled = m / std::max(a.gamma * static_cast<float>(hessian[i]), a.epsilon);
    const float clipped = std::max(-1.0F, std::min(scaled, 1.0F));
    num_unclipped += std::abs(scaled) < 1.0F ? 1 : 0;
    float& w = master[i - begin];
    w = w * piece.decay - a.learning_rate * clipped;
    store_state(m, sophia_random<State>(a, piece, i), exp_avg[i]);
  }
  masters.write();
  if (a.num_unclipped == nullptr) return;
  std::atomic_ref(a.num_unclipped[0]).fetch_add(num_unclipped, std::memory_order_relaxed);
}

template <typename Gradient, typename State>
void hessian_range(const SophiaArguments& a, const UpdatePiece& piece, std::int64_t begin,
                   std::int64_t end) {
  const auto* __restrict__ grad = static_cast<const Gradient*>(a.grad);
  auto* __restrict__ hessian = static_cast<State*>(a.hessian);
  for (std::int64_t i = begin; i < end; ++i) {
    const auto e = static_cast<float>(grad[i]);
    const float h = a.beta2 * static_cast<float>(hessian[i]) + a.square_factor * e * e;
    store_state(h, sophia_random<State>(a, piece, i) >> 16, hessian[i]);
  }
}

template <typename Gradient, typename State>
void run_range(const SophiaArguments& a, const UpdatePiece& piece, std::int64_t begin,
               std::int64_t end) {
  if (a.pass == SophiaPass::kHessian) return hessian_range<Gradient, State>(a, piece, begin, end);
  update_range<Gradient, State>(a, piece, begin, end);
}

template <typename Gradient>
void run_range_with(const SophiaArguments& a, const UpdatePiece& piece, std::int64_t begin,
                    std::int64_t end) {
  if (a.state_dtype == DataType::kBFloat16) {
    run_range<Gradient, c10::BFloat16>(a, piece, begin, end);
  } else {
    run_range<Gradient, float>(a, piece, begin, end);
  }
}

}  // namespace

void sophia_cpu_range(const SophiaArguments& a, const UpdatePiece& piece, std::int64_t begin,
                      std::int64_t end) {
  if (a.grad_dtype == DataType::kBFloat16) {
    run_range_with<c10::BFloat16>(a, piece, begin, end);
  } else {
    run_range_with<float>(a, piece, begin, end);
  }
}

}  // namespace packtrain
