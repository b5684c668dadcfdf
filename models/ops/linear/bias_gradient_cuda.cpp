#include "models/ops/linear/bias_gradient_cuda.h"

#include <ATen/ops/empty.h>

#include "models/ops/cuda/current_stream.h"
#include "models/ops/cuda/gradient_target.h"
#include "models/ops/linear/bias_gradient_launch.h"

namespace packtrain {

void bias_gradient_cuda(const at::Tensor& grad_output, const Parameter& bias) {
  const at::Tensor rows = grad_output.contiguous();
  const std::int64_t num_splits = num_bias_gradient_splits(rows.size(0), rows.size(1));
  const at::Tensor partial_sums =
      at::empty({num_splits, rows.size(1)}, rows.options().dtype(at::kFloat));
  BiasGradientArguments arguments;
  arguments.grad_output = rows.const_data_ptr();
  arguments.partial_sums = partial_sums.data_ptr<float>();
  arguments.num_rows = rows.size(0);
  arguments.num_columns = rows.size(1);
  arguments.num_splits = num_splits;
  arguments.dtype = float_type_of(rows, "linear");
  arguments.target = gradient_target(&bias, "linear");
  launch_bias_gradient(arguments, current_stream(rows));
}

}  // namespace packtrain
