#include "models/ops/experts/grouped_gradient_cuda.h"

#include "models/ops/cuda/current_stream.h"
#include "models/ops/cuda/gradient_target.h"
#include "models/ops/experts/grouped_gradient_launch.h"

namespace packtrain {

void write_grouped_gradient_cuda(const Parameter& weight, const at::Tensor& products,
                                 const at::Tensor& ends) {
  const GradientTarget target = gradient_target(&weight, "the experts' weights");
  if (target.grad == nullptr) return;
  const at::Tensor in = products.contiguous();
  GroupedGradientArguments arguments;
  arguments.products = in.const_data_ptr();
  arguments.ends = ends.const_data_ptr<std::int32_t>();
  arguments.target = target;
  arguments.num_groups = static_cast<int>(in.size(0));
  arguments.matrix_numel = in.size(1) * in.size(2);
  launch_grouped_gradient(arguments, current_stream(in));
}

}  // namespace packtrain
