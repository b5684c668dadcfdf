// What reading a checkpoint took of the file system.
#pragma once

#include <cstdint>

namespace packtrain {

struct ReadCounts {
  std::int64_t num_opens = 0;
  std::uint64_t num_bytes = 0;  // of files; without the manifest
};

}  // namespace packtrain
