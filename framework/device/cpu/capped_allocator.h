// An end to the memory of CPU tensors, as GPUs have one: for tests of what happens there.
#pragma once

#include <cstddef>

namespace packtrain {

// Of the whole process, for the tensors made from now on; a later call changes the cap.
void cap_cpu_tensors(std::size_t bytes);

}  // namespace packtrain
