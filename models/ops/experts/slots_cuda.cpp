#include "models/ops/experts/slots_cuda.h"

#include <ATen/ops/empty.h>

#include "models/ops/cuda/current_stream.h"
#include "models/ops/experts/slots_launch.h"

namespace packtrain {
namespace {

// Contiguous places and weights, and what kernels are told of them and of `values`.
struct Slots {
  at::Tensor places;
  at::Tensor weights;
  SlotArguments arguments;

  Slots(const at::Tensor& of_rows, const at::Tensor& factors, std::int64_t num_own_rows,
        const at::Tensor& values, const char* name) {
    arguments.num_rows = num_own_rows;
    if (of_rows.defined()) {
      places = of_rows.contiguous();
      arguments.places = places.const_data_ptr<std::int32_t>();
      arguments.num_rows = places.size(0);
      arguments.num_slots = static_cast<int>(places.size(1));
    }
    if (factors.defined()) {
      weights = factors.contiguous();
      arguments.weights = weights.const_data_ptr<float>();
    }
    arguments.width = values.size(1);
    arguments.bfloat16 = is_bfloat16(values, name);
  }
};

}  // namespace

at::Tensor slot_sum_cuda(const at::Tensor& values, const at::Tensor& places,
                         const at::Tensor& weights, const at::Tensor& addend) {
  const at::Tensor in = values.contiguous();
  const at::Tensor added = addend.defined() ? addend.contiguous() : at::Tensor();
  const Slots slots(places, weights, in.size(0), in, "slot_sum");
  const at::Tensor y = at::empty({slots.arguments.num_rows, in.size(1)}, in.options());
  launch_slot_sum(slots.arguments, in.const_data_ptr(),
                  added.defined() ? added.const_data_ptr() : nullptr, y.data_ptr(),
                  current_stream(in));
  return y;
}

at::Tensor slot_spread_cuda(const at::Tensor& rows, const at::Tensor& places,
                            const at::Tensor& weights) {
  const at::Tensor in = rows.contiguous();
  const Slots slots(places, weights, in.size(0), in, "slot_spread");
  const std::int64_t num_values = slots.arguments.num_rows * slots.arguments.num_slots;
  const at::Tensor values = at::empty({num_values, in.size(1)}, in.options());
  launch_slot_spread(slots.arguments, in.const_data_ptr(), values.data_ptr(), current_stream(in));
  return values;
}

at::Tensor slot_dot_cuda(const at::Tensor& a, const at::Tensor& b, const at::Tensor& places,
                         const at::Tensor& divisors) {
  const at::Tensor first = a.contiguous();
  const at::Tensor second = b.defined() ? b.contiguous() : at::Tensor();
  const Slots slots(places, divisors, first.size(0), first, "slot_dot");
  const at::Tensor dots = at::empty({slots.arguments.num_rows, slots.arguments.num_slots},
                                    first.options().dtype(at::kFloat));
  launch_slot_dot(slots.arguments, first.const_data_ptr(),
                  second.defined() ? second.const_data_ptr() : nullptr, dots.data_ptr<float>(),
                  current_stream(first));
  return dots;
}

}  // namespace packtrain
