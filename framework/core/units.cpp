#include "framework/core/units.h"

#include <fmt/format.h>

namespace packtrain {

std::string format_bytes(std::uint64_t bytes) {
  const auto size = static_cast<double>(bytes);
  if (size >= kGibibyte) return fmt::format("{:.2f} GiB", size / kGibibyte);
  if (size >= kMebibyte) return fmt::format("{:.1f} MiB", size / kMebibyte);
  return fmt::format("{} bytes", bytes);
}

}  // namespace packtrain
