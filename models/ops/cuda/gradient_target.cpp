#include "models/ops/cuda/gradient_target.h"

#include <string>

#include "framework/core/error.h"
#include "models/ops/cuda/current_stream.h"

namespace packtrain {

GradientTarget gradient_target(const Parameter* parameter, const char* what) {
  if (parameter == nullptr || !parameter->grad.defined()) return {};
  const at::Tensor& grad = parameter->grad;
  if (!grad.is_contiguous()) {
    throw Error(ErrorCategory::kInternal,
                std::string(what) + ": got a gradient with gaps, wanted a contiguous one");
  }
  return {grad.data_ptr(), float_type_of(grad, what), parameter->accumulate};
}

}  // namespace packtrain
