// Shared by launchers: can rows be read in 16-byte vectors?
#pragma once

#include <cstdint>

namespace packtrain {

// True when rows of `row_numel` elements, starting at `pointers`, can be read in 16-byte vectors.
template <typename... Pointers>
bool can_vectorize(std::int64_t row_numel, std::int64_t element_bytes, Pointers... pointers) {
  const bool whole_vectors = row_numel * element_bytes % 16 == 0;
  return whole_vectors && ((reinterpret_cast<std::uintptr_t>(pointers) % 16 == 0) && ...);
}

}  // namespace packtrain
