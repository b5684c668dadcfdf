#include "framework/data/token_weights.h"

#include <algorithm>
#include <array>

namespace packtrain {

std::int64_t count_supervised(std::span<const std::uint8_t> mask) {
  return std::ssize(mask) - std::ranges::count(mask, std::uint8_t{0});
}

double sum_of_weights(std::span<const std::uint8_t> mask, TokenWeights weights) {
  if (weights.empty()) return static_cast<double>(count_supervised(mask));
  std::array<std::int64_t, kMaxTokenWeights> counts{};
  for (const std::uint8_t byte : mask) ++counts[byte];
  double sum = 0;
  for (std::size_t byte = 0; byte < weights.size(); ++byte) {
    sum += static_cast<double>(counts[byte]) * weights[byte];
  }
  return sum;
}

}  // namespace packtrain
