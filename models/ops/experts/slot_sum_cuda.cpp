#include "models/ops/experts/slot_sum_cuda.h"

#include <ATen/ops/empty.h>

#include "models/ops/cuda/current_stream.h"
#include "models/ops/experts/slot_sum_launch.h"

namespace packtrain {

at::Tensor slot_sum_cuda(const at::Tensor& values, const at::Tensor& places,
                         const at::Tensor& weights, const at::Tensor& addend) {
  const at::Tensor in = values.contiguous();
  const at::Tensor from = places.contiguous();
  const at::Tensor scale = weights.defined() ? weights.contiguous() : at::Tensor();
  const at::Tensor added = addend.defined() ? addend.contiguous() : at::Tensor();
  const at::Tensor y = at::empty({from.size(0), in.size(1)}, in.options());
  SlotSumArguments arguments;
  arguments.values = in.const_data_ptr();
  arguments.places = from.const_data_ptr<std::int32_t>();
  if (scale.defined()) arguments.weights = scale.const_data_ptr<float>();
  if (added.defined()) arguments.addend = added.const_data_ptr();
  arguments.output = y.data_ptr();
  arguments.num_rows = from.size(0);
  arguments.width = in.size(1);
  arguments.num_slots = static_cast<int>(from.size(1));
  arguments.bfloat16 = is_bfloat16(in, "slot_sum");
  launch_slot_sum(arguments, current_stream(in));
  return y;
}

}  // namespace packtrain
