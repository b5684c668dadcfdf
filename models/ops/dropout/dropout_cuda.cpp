#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAGuard.h>

#include "models/ops/cuda/current_stream.h"
#include "models/ops/dropout/dropout.h"
#include "models/ops/dropout/dropout_launch.h"

namespace packtrain {

at::Tensor dropout_cuda(const at::Tensor& x, const DropoutMask& mask) {
  at::Tensor y = at::empty_like(x);
  if (x.numel() == 0) return y;
  const c10::cuda::CUDAGuard guard(x.device());
  DropoutArguments arguments;
  arguments.x = x.const_data_ptr();
  arguments.y = y.data_ptr();
  arguments.row_seeds = mask.row_seeds.const_data_ptr<std::int32_t>();
  arguments.num_rows = x.size(0);
  arguments.width = x.size(1);
  arguments.key = mask.key;
  arguments.probability = mask.probability;
  arguments.dtype = float_type_of(x, "dropout");
  launch_dropout(arguments, current_stream(x));
  return y;
}

}  // namespace packtrain
