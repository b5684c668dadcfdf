// What every launcher needs: element types as template arguments, run lengths, current stream.
#pragma once

#include <cstdint>

namespace packtrain {

// Whether `row_numel` elements a row, starting at `pointers`, can be read in runs of 16 bytes.
template <typename... Pointers>
bool can_vectorize(std::int64_t row_numel, std::int64_t element_bytes, Pointers... pointers) {
  const bool whole_vectors = row_numel * element_bytes % 16 == 0;
  return whole_vectors && ((reinterpret_cast<std::uintptr_t>(pointers) % 16 == 0) && ...);
}

}  // namespace packtrain
