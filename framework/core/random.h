// Counter-based random numbers: any element of any stream without state, the same on every rank.
// Mixing function: SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number
// generators", OOPSLA 2014), keyed by hashing (seed, stream).
#pragma once

#include <cstdint>
#include <string_view>

namespace packtrain {

class CounterRandom {
 public:
  // One stream of numbers. `name` and `index` distinguish the streams of a seed.
  CounterRandom(std::uint64_t seed, std::string_view name, std::uint64_t index = 0);

  // constexpr, so that device code can call them.
  constexpr std::uint64_t bits(std::uint64_t counter) const {  // 64 uniform bits
    return mix(key_ + kGolden * (counter + 1));
  }
  constexpr double uniform(std::uint64_t counter) const {  // [0, 1), 53 bits
    return static_cast<double>(bits(counter) >> 11U) * 0x1.0p-53;
  }
  double normal(std::uint64_t counter) const;  // standard normal (Box-Muller)
  // Uniform in [0, bound), bound > 0, by multiply-shift. Its bias is below bound / 2^64.
  std::uint64_t below(std::uint64_t counter, std::uint64_t bound) const;

 private:
  static constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15ULL;

  static constexpr std::uint64_t mix(std::uint64_t z) {
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31U);
  }

  std::uint64_t key_;
};

}  // namespace packtrain
