// Pinned memory of the host, for asynchronous copies from and to a GPU.
#pragma once

#include <cstddef>

#include "framework/device/device.h"

namespace packtrain {

// `bytes` > 0. Large buffers are pages that several threads made present, and are zero. The current
// device of the calling thread must be `index`. Throws host_memory_error() where the system has not
// as much memory, or may not lock it.
HostBuffer allocate_pinned(std::size_t bytes, int index);

}  // namespace packtrain
