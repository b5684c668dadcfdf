#include "models/ops/layer_norm/layer_norm_launch.h"

#include "models/ops/cuda/row_norm_launch.cuh"

namespace packtrain {

std::int64_t layer_norm_backward_blocks(const NormArguments& arguments) {
  return backward_plan(arguments).num_blocks;
}

void launch_layer_norm(const NormArguments& arguments, void* stream) {
  launch_norm</*kCentered=*/true>(arguments, stream);
}

}  // namespace packtrain
