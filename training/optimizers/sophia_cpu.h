#pragma once

#include "training/optimizers/sophia_arguments.h"

namespace packtrain {

// Runs arguments.pass on elements [begin, end), all of one piece. Does not read `skip` or the
// pieces of the arguments.
void sophia_cpu_range(const SophiaArguments& arguments, const UpdatePiece& piece,
                      std::int64_t begin, std::int64_t end);

}  // namespace packtrain
