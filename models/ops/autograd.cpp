#include "models/ops/autograd.h"

#include <ATen/core/ivalue.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

#include "models/ops/autograd_cuda.h"

namespace packtrain {
namespace {

// Carries the pair through AutogradContext, whose saved data are IValues.
struct Holder : torch::CustomClassHolder {
  explicit Holder(ForwardBackward pair) : functions(std::move(pair)) {}
  ForwardBackward functions;
};

struct Adapter : torch::autograd::Function<Adapter> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, at::TensorList inputs,
                            const c10::intrusive_ptr<Holder>& holder) {
    Tensors saved;
    at::Tensor output = holder->functions.forward(inputs.vec(), saved);
    context->save_for_backward(std::move(saved));
    context->saved_data["pair"] = c10::IValue::make_capsule(holder);
    return output;
  }

  static Tensors backward(torch::autograd::AutogradContext* context, Tensors grad_outputs) {
    if (grad_outputs.at(0).is_cuda()) attach_cuda_context();
    const auto capsule = context->saved_data.at("pair").toCapsule();
    const auto& holder = static_cast<const Holder&>(*capsule);
    const at::Tensor grad_output = grad_outputs.at(0).contiguous();
    Tensors grads = holder.functions.backward(context->get_saved_variables(), grad_output);
    grads.emplace_back();  // for the holder, an argument of forward without a gradient
    return grads;
  }
};

}  // namespace

at::Tensor apply_operator(const Tensors& inputs, ForwardBackward functions) {
  // As a TensorList: libtorch looks for inputs in no other container.
  return Adapter::apply(at::TensorList(inputs), c10::make_intrusive<Holder>(std::move(functions)));
}

}  // namespace packtrain
