#include "framework/device/cuda/cached_memory.h"

namespace packtrain {

void cap_cached_memory(int /*device*/, std::size_t /*bytes*/, std::size_t /*total_bytes*/) {}

void release_cached_memory() {}

std::int64_t num_cached_memory_retries(int /*device*/) {
  return 0;
}

}  // namespace packtrain
