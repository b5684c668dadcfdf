#include "models/ops/rms_norm/rms_norm_launch.h"

#include "models/ops/cuda/row_norm_launch.cuh"

namespace packtrain {

std::int64_t rms_norm_backward_blocks(const NormArguments& arguments) {
  return backward_plan(arguments).num_blocks;
}

void launch_rms_norm(const NormArguments& arguments, void* stream) {
  launch_norm</*kCentered=*/false>(arguments, stream);
}

}  // namespace packtrain
