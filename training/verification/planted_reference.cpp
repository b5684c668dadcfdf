#include "training/verification/planted_reference.h"

#include <cstddef>

#include "framework/core/random.h"

namespace packtrain {

std::span<const float> PlantedReference::of(std::int64_t example) const {
  constexpr double kLowest = -8;
  const std::lock_guard lock(mutex_);
  const auto [found, is_new] = values_.try_emplace(example);
  if (!is_new) return found->second;
  const auto count = store_.num_loss_tokens()[static_cast<std::size_t>(example)];
  const CounterRandom random(0, "verification.reference", static_cast<std::uint64_t>(example));
  for (std::int32_t n = 0; n < count; ++n) {
    const double drawn = random.uniform(static_cast<std::uint64_t>(n));
    found->second.push_back(static_cast<float>(kLowest * drawn));
  }
  return found->second;
}

}  // namespace packtrain
