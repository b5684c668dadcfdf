#include "models/ops/experts/grouped_wgrad_cuda.h"

#include "models/ops/cuda/current_stream.h"
#include "models/ops/cuda/gradient_target.h"
#include "models/ops/cuda/hopper/available.h"
#include "models/ops/experts/grouped_wgrad_launch.h"

namespace packtrain {

bool has_grouped_wgrad_cuda() {
  return has_hopper_kernels();
}

void grouped_weight_gradient_cuda(const Parameter& weight, const at::Tensor& left,
                                  const at::Tensor& right, const at::Tensor& ends) {
  const GradientTarget target = gradient_target(&weight, "the experts' weights");
  if (target.grad == nullptr) return;
  GroupedWgradArguments arguments;
  arguments.left = left.const_data_ptr();
  arguments.right = right.const_data_ptr();
  arguments.left_stride = left.stride(0);
  arguments.right_stride = right.stride(0);
  arguments.ends = ends.const_data_ptr<std::int32_t>();
  arguments.target = target;
  arguments.num_rows = left.size(0);
  arguments.num_left = static_cast<int>(weight.value.size(1));
  arguments.num_right = static_cast<int>(weight.value.size(2));
  arguments.num_groups = static_cast<int>(ends.size(0));
  launch_grouped_wgrad(arguments, current_stream(left));
}

}  // namespace packtrain
