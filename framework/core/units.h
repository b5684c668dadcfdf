// Binary units of memory and files.
#pragma once

#include <cstdint>
#include <string>

namespace packtrain {

inline constexpr double kMebibyte = 1024.0 * 1024.0;
inline constexpr double kGibibyte = 1024.0 * kMebibyte;

inline double to_gibibytes(std::int64_t bytes) {
  return static_cast<double>(bytes) / kGibibyte;
}

// "1.50 GiB", "12.3 MiB" or "512 bytes".
std::string format_bytes(std::uint64_t bytes);

}  // namespace packtrain
