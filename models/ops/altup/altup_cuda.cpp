#include <ATen/ops/empty.h>
#include <c10/util/StringUtil.h>

#include <utility>

#include "framework/core/error.h"
#include "models/ops/altup/altup.h"
#include "models/ops/altup/altup_launch.h"
#include "models/ops/cuda/current_stream.h"

namespace packtrain {
namespace {

AltUpArguments altup_arguments(const at::Tensor& rows, const at::Tensor& coefficients,
                               const AltUpShape& shape) {
  if (shape.num_copies > kAltUpMostCopies) {
    throw Error(ErrorCategory::kInternal, c10::str("altup: got ", shape.num_copies,
                                                   " copies, wanted at most ", kAltUpMostCopies));
  }
  AltUpArguments arguments;
  arguments.rows = rows.const_data_ptr();
  arguments.coefficients = coefficients.const_data_ptr();
  arguments.num_rows = rows.size(0);
  arguments.hidden = static_cast<int>(shape.hidden);
  arguments.num_copies = static_cast<int>(shape.num_copies);
  arguments.active = static_cast<int>(shape.active);
  arguments.dtype = float_type_of(rows, "altup");
  return arguments;
}

}  // namespace

at::Tensor altup_mix_cuda(const at::Tensor& rows, const at::Tensor& mixing,
                          const AltUpShape& shape) {
  const at::Tensor in = rows.contiguous();
  const at::Tensor factors = mixing.contiguous();
  at::Tensor y = at::empty(in.sizes(), in.options());
  AltUpArguments arguments = altup_arguments(in, factors, shape);
  arguments.output = y.data_ptr();
  launch_altup_predict(arguments, current_stream(in));
  return y;
}

AltUpRowGradients altup_mix_backward_cuda(const at::Tensor& grad, const at::Tensor& rows,
                                          const at::Tensor& mixing, const AltUpShape& shape) {
  const at::Tensor in = rows.contiguous();
  const at::Tensor of_output = grad.contiguous();
  const at::Tensor factors = mixing.contiguous();
  AltUpRowGradients grads{
      at::empty(in.sizes(), in.options()),
      at::empty({in.size(0), shape.num_copies * shape.num_copies}, in.options().dtype(at::kFloat))};
  AltUpArguments arguments = altup_arguments(in, factors, shape);
  arguments.grad = of_output.const_data_ptr();
  arguments.output = grads.rows.data_ptr();
  arguments.grad_coefficients = grads.coefficients.data_ptr<float>();
  launch_altup_predict_backward(arguments, current_stream(in));
  return grads;
}

at::Tensor altup_update_cuda(const at::Tensor& predictions, const at::Tensor& activated,
                             const at::Tensor& factors, const AltUpShape& shape) {
  const at::Tensor in = predictions.contiguous();
  const at::Tensor active = activated.contiguous();
  const at::Tensor of_copies = factors.contiguous();
  at::Tensor y = at::empty(in.sizes(), in.options());
  AltUpArguments arguments = altup_arguments(in, of_copies, shape);
  arguments.activated = active.const_data_ptr();
  arguments.output = y.data_ptr();
  launch_altup_correct(arguments, current_stream(in));
  return y;
}

AltUpRowGradients altup_update_backward_cuda_(const at::Tensor& grad, const at::Tensor& predictions,
                                              const at::Tensor& activated,
                                              const at::Tensor& factors, const AltUpShape& shape) {
  if (!grad.is_contiguous()) {
    throw Error(ErrorCategory::kInternal,
                "altup: got a gradient with gaps, wanted a contiguous one to write into");
  }
  const at::Tensor in = predictions.contiguous();
  const at::Tensor active = activated.contiguous();
  const at::Tensor of_copies = factors.contiguous();
  AltUpRowGradients grads{
      at::empty(active.sizes(), active.options()),
      at::empty({in.size(0), shape.num_copies}, in.options().dtype(at::kFloat))};
  AltUpArguments arguments = altup_arguments(in, of_copies, shape);
  arguments.activated = active.const_data_ptr();
  arguments.grad = grad.const_data_ptr();
  arguments.output = grad.data_ptr();
  arguments.grad_activated = grads.rows.data_ptr();
  arguments.grad_coefficients = grads.coefficients.data_ptr<float>();
  launch_altup_correct_backward(arguments, current_stream(in));
  return grads;
}

}  // namespace packtrain
