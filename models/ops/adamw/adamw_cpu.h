#pragma once

#include "models/ops/adamw/adamw_arguments.h"

namespace packtrain {

// Updates elements [begin, end); looks at neither `skip` nor `clip_factor` of the arguments.
void adamw_cpu_range(const AdamWArguments& arguments, float clip_factor, std::int64_t begin,
                     std::int64_t end);

}  // namespace packtrain
