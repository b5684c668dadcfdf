#pragma once

#include "models/ops/adamw/adamw_arguments.h"

namespace packtrain {

// Updates elements [begin, end), at most 4096 of one piece; looks at neither `skip` nor the pieces
// of the arguments.
void adamw_cpu_range(const AdamWArguments& arguments, const AdamWPiece& piece, std::int64_t begin,
                     std::int64_t end);

}  // namespace packtrain
