// Counts of file operations while a checkpoint is read.
#pragma once

#include <cstdint>

namespace packtrain {

struct ReadCounts {
  std::int64_t num_opens = 0;
  std::uint64_t num_bytes = 0;  // of shard files, without the manifest
};

}  // namespace packtrain
