#pragma once

#include "parallel/communicators/communicator.h"

namespace packtrain {

// Plain host memory, aligned to a page; data is null for zero bytes. Throws std::bad_alloc.
CommunicatorMemory allocate_host_memory(std::size_t bytes);

}  // namespace packtrain
