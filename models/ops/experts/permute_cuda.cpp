#include "models/ops/experts/permute.h"

#include <ATen/ops/empty.h>

#include "models/ops/cuda/current_stream.h"
#include "models/ops/experts/permute_launch.h"

namespace packtrain {
namespace {

// Contiguous permuted_rows and weights, with the arguments of the kernels.
struct Slots {
  at::Tensor permuted_rows;
  at::Tensor weights;
  PermuteArguments arguments;

  Slots(const at::Tensor& of_rows, const at::Tensor& factors, std::int64_t num_own_rows,
        const at::Tensor& values, const char* name) {
    arguments.num_rows = num_own_rows;
    if (of_rows.defined()) {
      permuted_rows = of_rows.contiguous();
      arguments.permuted_rows = permuted_rows.const_data_ptr<std::int32_t>();
      arguments.num_rows = permuted_rows.size(0);
      arguments.num_slots = static_cast<int>(permuted_rows.size(1));
    }
    if (factors.defined()) {
      weights = factors.contiguous();
      arguments.weights = weights.const_data_ptr<float>();
    }
    arguments.width = values.size(1);
    arguments.dtype = float_type_of(values, name);
  }
};

}  // namespace

at::Tensor unpermute_sum_cuda(const at::Tensor& values, const at::Tensor& permuted_rows,
                              const at::Tensor& weights, const at::Tensor& addend) {
  const at::Tensor in = values.contiguous();
  const at::Tensor added = addend.defined() ? addend.contiguous() : at::Tensor();
  const Slots slots(permuted_rows, weights, in.size(0), in, "slot_sum");
  const at::Tensor y = at::empty({slots.arguments.num_rows, in.size(1)}, in.options());
  launch_unpermute_sum(slots.arguments, in.const_data_ptr(),
                       added.defined() ? added.const_data_ptr() : nullptr, y.data_ptr(),
                       current_stream(in));
  return y;
}

at::Tensor permute_rows_cuda(const at::Tensor& rows, const at::Tensor& permuted_rows,
                             const at::Tensor& weights) {
  const at::Tensor in = rows.contiguous();
  const Slots slots(permuted_rows, weights, in.size(0), in, "slot_spread");
  const std::int64_t num_values = slots.arguments.num_rows * slots.arguments.num_slots;
  const at::Tensor values = at::empty({num_values, in.size(1)}, in.options());
  launch_permute_rows(slots.arguments, in.const_data_ptr(), values.data_ptr(), current_stream(in));
  return values;
}

at::Tensor grad_routing_weight_cuda(const at::Tensor& a, const at::Tensor& b,
                                    const at::Tensor& permuted_rows, const at::Tensor& divisors) {
  const at::Tensor first = a.contiguous();
  const at::Tensor second = b.defined() ? b.contiguous() : at::Tensor();
  const Slots slots(permuted_rows, divisors, first.size(0), first, "slot_dot");
  const at::Tensor dots = at::empty({slots.arguments.num_rows, slots.arguments.num_slots},
                                    first.options().dtype(at::kFloat));
  launch_grad_routing_weight(slots.arguments, first.const_data_ptr(),
                             second.defined() ? second.const_data_ptr() : nullptr,
                             dots.data_ptr<float>(), current_stream(first));
  return dots;
}

}  // namespace packtrain
