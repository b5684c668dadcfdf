#include "models/ops/rotary/rotary_cuda.h"

#include <ATen/ops/empty_like.h>

#include "models/ops/cuda/current_stream.h"
#include "models/ops/rotary/rotary_launch.h"

namespace packtrain {

at::Tensor rotary_cuda(const at::Tensor& qkv, std::int64_t num_rotated, const at::Tensor& cos,
                       const at::Tensor& sin, float direction) {
  const at::Tensor in = qkv.contiguous();
  at::Tensor out = at::empty_like(in);
  RotaryArguments arguments;
  arguments.qkv = in.const_data_ptr();
  arguments.output = out.data_ptr();
  arguments.cos = cos.const_data_ptr<float>();
  arguments.sin = sin.const_data_ptr<float>();
  arguments.num_rows = in.size(0);
  arguments.num_heads = in.size(1);
  arguments.num_rotated = num_rotated;
  arguments.half = in.size(2) / 2;
  arguments.direction = direction;
  arguments.bfloat16 = is_bfloat16(in, "rotary");
  launch_rotary(arguments, current_stream(in));
  return out;
}

}  // namespace packtrain
