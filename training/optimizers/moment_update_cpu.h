#pragma once

#include "training/optimizers/moment_arguments.h"

namespace packtrain {

// Updates elements [begin, end), at most 4,096 and all of one piece. Does not read `skip` or the
// pieces of the arguments.
void moment_update_cpu_range(const MomentArguments& arguments, const UpdatePiece& piece,
                             std::int64_t begin, std::int64_t end);

}  // namespace packtrain
