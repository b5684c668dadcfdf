// The largest magnitude of weights that an optimizer writes on the CPU (ShardPart::amax).
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>

namespace packtrain {

// The largest magnitude of the numbers, as bits, which have its order. NaN is above all.
template <typename T>
std::uint32_t largest_magnitude(const T* values, std::int64_t numel) {
  std::uint32_t most = 0;
  for (std::int64_t i = 0; i < numel; ++i) {
    most =
        std::max(most, std::bit_cast<std::uint32_t>(static_cast<float>(values[i])) & 0x7FFFFFFFU);
  }
  return most;
}

// Enters it in amax[index]; index -1: it is not asked for. Threads may enter numbers of other
// ranges of the same weight.
inline void enter_magnitude(std::uint32_t most, std::uint32_t* amax, int index) {
  if (index < 0) return;
  const std::atomic_ref<std::uint32_t> shared(amax[index]);
  std::uint32_t known = shared.load(std::memory_order_relaxed);
  while (most > known && !shared.compare_exchange_weak(known, most, std::memory_order_relaxed)) {
  }
}

template <typename T>
void enter_cpu_amax(const T* values, std::int64_t numel, std::uint32_t* amax, int index) {
  if (index >= 0) enter_magnitude(largest_magnitude(values, numel), amax, index);
}

}  // namespace packtrain
