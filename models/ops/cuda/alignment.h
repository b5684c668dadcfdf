// Shared by launchers: can elements be read in vectors?
#pragma once

#include <cstdint>

namespace packtrain {

// True when all pointers are multiples of `bytes`. A null pointer is.
template <typename... Pointers>
bool are_aligned(std::int64_t bytes, Pointers... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % bytes == 0) && ...);
}

}  // namespace packtrain
