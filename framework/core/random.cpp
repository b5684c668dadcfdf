#include "framework/core/random.h"

#include <cmath>
#include <numbers>

namespace packtrain {

CounterRandom::CounterRandom(std::uint64_t seed, std::string_view name, std::uint64_t index) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  key_ = mix(mix(mix(seed + kGolden) ^ hash) + kGolden * (index + 1));
}

double CounterRandom::normal(std::uint64_t counter) const {
  const double u = 1.0 - uniform(2 * counter);  // in (0, 1], so that the logarithm is finite
  const double v = uniform(2 * counter + 1);
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
}

std::uint64_t CounterRandom::below(std::uint64_t counter, std::uint64_t bound) const {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>((static_cast<Wide>(bits(counter)) * bound) >> 64U);
}

}  // namespace packtrain
