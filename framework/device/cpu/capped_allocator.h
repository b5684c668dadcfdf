// Limits the memory of CPU tensors, as a GPU's memory is limited, for tests of out of memory.
#pragma once

#include <cstddef>

namespace packtrain {

// Applies to tensors created from now on in the whole process. A later call changes the cap.
void cap_cpu_tensors(std::size_t bytes);

}  // namespace packtrain
