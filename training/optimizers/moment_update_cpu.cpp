#include "training/optimizers/moment_update_cpu.h"

#include <c10/util/BFloat16.h>

#include <bit>

#include "training/optimizers/cpu_master.h"
#include "training/optimizers/stochastic_rounding.h"

namespace packtrain {
namespace {

void store_moment(const MomentArguments& /*a*/, std::int64_t /*element*/, float value, float& to) {
  to = value;
}

void store_moment(const MomentArguments& a, std::int64_t element, float value, c10::BFloat16& to) {
  const std::uint32_t random = moment_random(a.seed, a.step, element / 4).values[element % 4];
  to.x = round_stochastically(std::bit_cast<std::uint32_t>(value), random);
}

template <typename Rule, typename Gradient, typename Moment>
void update_range(const MomentArguments& a, const UpdatePiece& piece, std::int64_t begin,
                  std::int64_t end) {
  const float clip = *a.clip_factor;
  auto* grad = static_cast<Gradient*>(a.grad);
  auto* moment = static_cast<Moment*>(a.moment);
  CpuMaster masters(a, piece, begin, end);
  float* master = masters.values();
  for (std::int64_t i = begin; i < end; ++i) {
    float g = static_cast<float>(grad[i]);
    float w = Rule::kWritesWeight ? master[i - begin] : 0.0F;
    float m = 0;
    if constexpr (Rule::kHasMoment) m = static_cast<float>(moment[i]);
    Rule::apply(a, piece.decay, clip, g, w, m);
    if constexpr (Rule::kHasMoment) store_moment(a, i + piece.element_offset, m, moment[i]);
    if constexpr (Rule::kWritesGrad) grad[i] = static_cast<Gradient>(g);
    if constexpr (Rule::kWritesWeight) master[i - begin] = w;
  }
  if (Rule::kWritesWeight) masters.write();
}

template <typename Rule, typename Gradient>
void update_typed(const MomentArguments& a, const UpdatePiece& piece, std::int64_t begin,
                  std::int64_t end) {
  if (a.moment_dtype == DataType::kBFloat16) {
    update_range<Rule, Gradient, c10::BFloat16>(a, piece, begin, end);
  } else {
    update_range<Rule, Gradient, float>(a, piece, begin, end);
  }
}

}  // namespace

void moment_update_cpu_range(const MomentArguments& a, const UpdatePiece& piece, std::int64_t begin,
                             std::int64_t end) {
  with_rule(a.rule, [&]<typename Rule>(Rule /*rule*/) {
    if (a.grad_dtype == DataType::kBFloat16) {
      update_typed<Rule, c10::BFloat16>(a, piece, begin, end);
    } else {
      update_typed<Rule, float>(a, piece, begin, end);
    }
  });
}

}  // namespace packtrain
