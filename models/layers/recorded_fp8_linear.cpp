#include "models/layers/recorded_fp8_linear.h"

#include <memory>
#include <utility>
#include <vector>

#include "models/block/operator_context.h"
#include "models/ops/fp8/fp8.h"
#include "models/ops/fp8/fp8_linear.h"
#include "models/ops/linear/linear.h"

namespace packtrain {
namespace {

class Fp8Product {
 public:
  Fp8Product(OperatorTape& tape, const std::string& name, Value x, const Fp8Layer& layer,
             std::optional<Value> residual)
      : layer_(layer),
        x_(x),
        residual_(residual),
        y_(tape.value(ValueKind::kProjection, name,
                      {tape.shape(x).num_rows, layer.width, tape.shape(x).dtype})),
        scales_(tape.value(ValueKind::kStatistics, name + ".scales", {2, 2, c10::kFloat})) {
    const bool saves_columns = has_fp8_gradient() && !stays_for_backward(tape.kind(x));
    if (!saves_columns) return;
    columns_ = tape.value(tape.kind(x), name + ".input",
                          {tape.shape(x).width, fp8_padded(tape.shape(x).num_rows),
                           fp8_scalar_type(Fp8Format::kE4M3)});
  }

  Value output() const { return y_; }
  std::vector<Value> outputs() const {
    std::vector<Value> outputs = {y_, scales_};
    if (columns_) outputs.push_back(*columns_);
    return outputs;
  }
  // Values that backward() reads.
  std::vector<Value> needs() const {
    std::vector<Value> needs = {scales_};
    if (layer_.trained) needs.push_back(columns_ ? *columns_ : x_);
    return needs;
  }

  void forward(OperatorContext& run) const {
    const at::Tensor rows = run.get(x_);
    const at::Tensor x_scale = make_fp8_scale(rows);
    const Parameter& weight = run.parameter(layer_.weight);
    const at::Tensor weight_scale = fp8_weight_scale(weight, rows);
    const bool saves = columns_ && run.is_saved(*columns_);
    Fp8Copies copies =
        fp8_cast(rows, x_scale, {.rows = true, .columns = saves, .amax = run.amax(x_)});
    run.set(y_,
            fp8_linear_forward({copies.rows, x_scale}, weight, weight_scale, run.find(layer_.bias),
                               run.options().gemm_timing, run.get(residual_)));
    run.set_all(scales_, {x_scale, weight_scale});
    if (saves) run.set(*columns_, std::move(copies.columns));
  }

  void backward(OperatorContext& run) const {
    at::Tensor grad = run.gradient(y_);
    const Parameter& weight = run.parameter(layer_.weight);
    const Parameter* bias = run.find(layer_.bias);
    if (residual_) run.add_gradient(*residual_, grad);
    if (bias != nullptr) linear_backward_bias(grad, *bias);
    const bool has_gradient = layer_.trained && weight.grad.defined();
    const at::Tensor scale = make_fp8_scale(grad);
    Fp8Copies copies = fp8_cast(grad, scale,
                                {.format = Fp8Format::kE5M2,
                                 .rows = true,
                                 .columns = has_gradient && has_fp8_gradient(),
                                 .amax = run.gradient_amax(y_)});
    if (!has_gradient || has_fp8_gradient()) {
      // Frees the gradient, which nothing reads any more, before there is that of x.
      run.set_gradient(y_, {});
      grad.reset();
    }
    const std::vector<at::Tensor> scales = run.get_all(scales_);
    run.set_gradient(x_,
                     fp8_linear_backward_input({std::move(copies.rows), scale}, weight, scales[1],
                                               run.options().gemm_timing, run.gradient(x_)));
    if (!has_gradient) return;
    if (has_fp8_gradient()) return backward_weight(run, {copies.columns, scale}, scales[0]);
    run.when_available(x_, [=, &run, &weight](const at::Tensor& rows) {
      run.weight_grads().run_or_defer([=, &weight, &timing = run.options().gemm_timing] {
        linear_backward_weight(grad, rows, weight, nullptr, timing);
      });
    });
  }

 private:
  bool has_fp8_gradient() const { return layer_.trained && layer_.products == Fp8Products::kAll; }

  void backward_weight(OperatorContext& run, const Fp8Operand& grad_columns,
                       const at::Tensor& x_scale) const {
    const Parameter& weight = run.parameter(layer_.weight);
    const auto multiply = [=, &run, &weight](const at::Tensor& columns) {
      run.weight_grads().run_or_defer([=, &weight, &timing = run.options().gemm_timing] {
        fp8_linear_backward_weight(grad_columns, {columns, x_scale}, weight, timing);
      });
    };
    if (columns_ && run.is_available(*columns_)) return multiply(run.get(*columns_));
    run.when_available(x_, [=](const at::Tensor& rows) {
      multiply(fp8_cast(rows, x_scale, {.columns = true, .has_known_scale = true}).columns);
    });
  }

  Fp8Layer layer_;
  Value x_;
  std::optional<Value> residual_;
  Value y_;
  Value scales_;
  std::optional<Value> columns_;
};

}  // namespace

Value record_fp8_product(OperatorTape& tape, const std::string& name, Value x,
                         const Fp8Layer& layer, std::optional<Value> residual) {
  const auto product = std::make_shared<Fp8Product>(tape, name, x, layer, residual);
  Operator step;
  step.inputs = {x};
  step.residual = residual;
  step.outputs = product->outputs();
  step.needs = product->needs();
  MultiplyAdds& multiply_adds = step.multiply_adds;
  (layer.trained ? multiply_adds.of_rows : multiply_adds.of_frozen_rows) =
      tape.shape(x).numel() * layer.width;
  multiply_adds.of_fp8_rows = tape.shape(x).numel() * layer.width;
  multiply_adds.num_fp8_products = layer.trained && layer.products == Fp8Products::kAll ? 3 : 2;
  step.forward = [product](OperatorContext& run) { product->forward(run); };
  step.backward = [product](OperatorContext& run) { product->backward(run); };
  tape.record(std::move(step));
  return product->output();
}

}  // namespace packtrain
