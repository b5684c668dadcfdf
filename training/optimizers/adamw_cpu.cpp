#include "training/optimizers/adamw_cpu.h"

#include <c10/util/BFloat16.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "training/optimizers/cpu_master.h"
#include "training/optimizers/stochastic_rounding.h"

namespace packtrain {
namespace {

constexpr std::int64_t kMaxElements = 4096;

void store_moments(const AdamWArguments& a, const UpdatePiece& /*piece*/, std::int64_t begin,
                   std::int64_t end, const float* first, const float* second, float* /*dtype*/) {
  std::copy(first, first + (end - begin), static_cast<float*>(a.exp_avg) + begin);
  std::copy(second, second + (end - begin), static_cast<float*>(a.exp_avg_sq) + begin);
}

void store_moments(const AdamWArguments& a, const UpdatePiece& piece, std::int64_t begin,
                   std::int64_t end, const float* first, const float* second,
                   c10::BFloat16* /*dtype*/) {
  auto* exp_avg = static_cast<c10::BFloat16*>(a.exp_avg);
  auto* exp_avg_sq = static_cast<c10::BFloat16*>(a.exp_avg_sq);
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t element = i + piece.element_offset;
    const std::uint32_t random = moment_random(a.seed, a.step, element / 4).values[element % 4];
    exp_avg[i].x = round_stochastically(std::bit_cast<std::uint32_t>(first[i - begin]), random);
    exp_avg_sq[i].x =
        round_stochastically(std::bit_cast<std::uint32_t>(second[i - begin]), random >> 16);
  }
}

// Plain loops over unaliased pointers, so that the compiler vectorizes them.
template <typename Gradient, typename Moment>
void update(const AdamWArguments& a, const UpdatePiece& piece, std::int64_t begin,
            std::int64_t end) {
  if (begin >= end) return;  // else the compiler warns of the arrays
  const float clip_factor = *a.clip_factor;
  const float decay = piece.decay;
  float first[kMaxElements];
  float second[kMaxElements];
  CpuMaster masters(a, piece, begin, end);
  float* __restrict__ master = masters.values();
  const auto* __restrict__ grad = static_cast<const Gradient*>(a.grad) + begin;
  const auto* __restrict__ exp_avg = static_cast<const Moment*>(a.exp_avg) + begin;
  const auto* __restrict__ exp_avg_sq = static_cast<const Moment*>(a.exp_avg_sq) + begin;
  for (std::int64_t i = 0; i < end - begin; ++i) {
    const float g = clip_factor * static_cast<float>(grad[i]);
    const float m = a.beta1 * static_cast<float>(exp_avg[i]) + a.one_minus_beta1 * g;
    const float v = a.beta2 * static_cast<float>(exp_avg_sq[i]) + a.one_minus_beta2 * g * g;
    first[i] = m;
    second[i] = v;
    master[i] =
        master[i] * decay - a.step_size * m / (std::sqrt(v) * a.inverse_root_bias2 + a.epsilon);
  }
  store_moments(a, piece, begin, end, first, second, static_cast<Moment*>(nullptr));
  masters.write();
}

template <typename Gradient>
void update_with(const AdamWArguments& a, const UpdatePiece& piece, std::int64_t begin,
                 std::int64_t end) {
  if (a.moments_dtype == DataType::kBFloat16) {
    update<Gradient, c10::BFloat16>(a, piece, begin, end);
  } else {
    update<Gradient, float>(a, piece, begin, end);
  }
}

}  // namespace

void adamw_cpu_range(const AdamWArguments& a, const UpdatePiece& piece, std::int64_t begin,
                     std::int64_t end) {
  if (a.grad_dtype == DataType::kBFloat16) {
    update_with<c10::BFloat16>(a, piece, begin, end);
  } else {
    update_with<float>(a, piece, begin, end);
  }
}

}  // namespace packtrain
