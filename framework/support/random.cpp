#include "framework/support/random.h"

#include <cmath>
#include <numbers>

namespace packtrain {
namespace {

std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31U);
}

constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15ULL;

}  // namespace

CounterRandom::CounterRandom(std::uint64_t seed, std::string_view name, std::uint64_t index) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  key_ = mix(mix(mix(seed + kGolden) ^ hash) + kGolden * (index + 1));
}

std::uint64_t CounterRandom::bits(std::uint64_t counter) const {
  return mix(key_ + kGolden * (counter + 1));
}

double CounterRandom::uniform(std::uint64_t counter) const {
  return static_cast<double>(bits(counter) >> 11U) * 0x1.0p-53;
}

double CounterRandom::normal(std::uint64_t counter) const {
  const double u = 1.0 - uniform(2 * counter);  // (0, 1]: the logarithm stays finite
  const double v = uniform(2 * counter + 1);
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
}

std::uint64_t CounterRandom::below(std::uint64_t counter, std::uint64_t bound) const {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>((static_cast<Wide>(bits(counter)) * bound) >> 64U);
}

}  // namespace packtrain
