#include "models/layers/recorded_fp8_block_linear.h"

#include <memory>
#include <utility>

#include "models/block/operator_context.h"
#include "models/ops/fp8/fp8.h"
#include "models/ops/fp8/fp8_block.h"
#include "models/ops/fp8/fp8_block_linear.h"
#include "models/ops/fp8/fp8_linear.h"
#include "models/ops/linear/linear.h"

namespace packtrain {
namespace {

// The columns of x, as values of the tape.
struct SavedColumns {
  Value codes;
  Value scales;
};

class Fp8BlockProduct {
 public:
  Fp8BlockProduct(const Fp8Layer& layer, Value x, Value y, std::optional<Value> residual,
                  std::optional<SavedColumns> columns)
      : layer_(layer), x_(x), y_(y), residual_(residual), columns_(columns) {}

  void forward(OperatorContext& run) const {
    const at::Tensor rows = run.get(x_);
    const bool saves = columns_ && run.is_saved(columns_->codes);
    Fp8Groups groups =
        fp8_group_cast(rows, {.rows = true,
                              .columns = saves ? column_scales() : Fp8ColumnScales::kNone,
                              .amax = run.amax(x_)});
    run.set(y_, fp8_block_linear_forward(groups.rows, rows.size(0), run.parameter(layer_.weight),
                                         run.find(layer_.bias), run.options().gemm_timing,
                                         run.get(residual_)));
    if (!saves) return;
    run.set(columns_->codes, std::move(groups.columns.codes));
    run.set(columns_->scales, std::move(groups.columns.scale));
  }

  void backward(OperatorContext& run) const {
    const Parameter& weight = run.parameter(layer_.weight);
    const bool has_gradient = layer_.trained && weight.grad.defined();
    const bool is_in_fp8 = column_scales() != Fp8ColumnScales::kNone;
    at::Tensor grad = run.gradient(y_);
    const std::int64_t num_rows = grad.size(0);
    pass_on(run, grad);
    Fp8Groups groups =
        fp8_group_cast(grad, {.rows = true,
                              .columns = has_gradient ? column_scales() : Fp8ColumnScales::kNone,
                              .tensor_format = Fp8Format::kE5M2,
                              .amax = run.gradient_amax(y_)});
    if (!has_gradient || is_in_fp8) {
      // Frees the gradient, which nothing reads any more, before there is that of x.
      run.set_gradient(y_, {});
      grad.reset();
    }
    run.set_gradient(
        x_, fp8_block_linear_backward_input(std::exchange(groups.rows, {}), num_rows, weight,
                                            run.options().gemm_timing, run.gradient(x_)));
    if (!has_gradient) return;
    if (is_in_fp8) return backward_weight(run, groups.columns);
    run.when_available(x_, [=, this, &run](const at::Tensor& rows) {
      queue(run, [=](const Parameter& of, const GemmTiming& timing) {
        linear_backward_weight(grad, rows, of, nullptr, timing);
      });
    });
  }

 private:
  Fp8ColumnScales column_scales() const {
    if (!layer_.trained || layer_.products != Fp8Products::kAll) return Fp8ColumnScales::kNone;
    return layer_.recipe == Fp8Recipe::kBlock ? Fp8ColumnScales::kGroups : Fp8ColumnScales::kTensor;
  }

  // To the residual and the bias.
  void pass_on(OperatorContext& run, const at::Tensor& grad) const {
    if (residual_) run.add_gradient(*residual_, grad);
    if (const Parameter* bias = run.find(layer_.bias)) linear_backward_bias(grad, *bias);
  }

  void backward_weight(OperatorContext& run, const Fp8Operand& grad_columns) const {
    const auto multiply = [=, this, &run](const Fp8Operand& columns) {
      queue(run, [=](const Parameter& weight, const GemmTiming& timing) {
        fp8_linear_backward_weight(grad_columns, columns, weight, timing);
      });
    };
    if (columns_ && run.is_available(columns_->codes)) {
      return multiply({run.get(columns_->codes), run.get(columns_->scales), grad_columns.scaling});
    }
    run.when_available(
        x_, [=, this, &run](const at::Tensor& rows) { multiply(columns_of(rows, run.amax(x_))); });
  }

  // The same as the forward makes.
  Fp8Operand columns_of(const at::Tensor& x, const at::Tensor& amax) const {
    if (layer_.recipe == Fp8Recipe::kBlock) {
      return fp8_group_cast(x, {.columns = Fp8ColumnScales::kGroups}).columns;
    }
    const at::Tensor scale = make_fp8_scale(x);
    return {fp8_cast(x, scale, {.columns = true, .amax = amax}).columns, scale};
  }

  // `product(weight, timing)` writes the weight's gradient.
  template <typename Product>
  void queue(OperatorContext& run, const Product& product) const {
    const Parameter& weight = run.parameter(layer_.weight);
    run.weight_grads().run_or_defer(
        [product, &weight, &timing = run.options().gemm_timing] { product(weight, timing); });
  }

  Fp8Layer layer_;
  Value x_;
  Value y_;
  std::optional<Value> residual_;
  std::optional<SavedColumns> columns_;
};

std::optional<SavedColumns> declare_columns(OperatorTape& tape, const std::string& name, Value x,
                                            const Fp8Layer& layer) {
  const ValueKind kind = tape.kind(x);
  const bool is_read = layer.trained && layer.products == Fp8Products::kAll;
  if (!is_read || stays_for_backward(kind)) return std::nullopt;
  const std::int64_t width = tape.shape(x).width;
  const std::int64_t padded = fp8_padded(tape.shape(x).num_rows);
  const ValueShape scales = layer.recipe == Fp8Recipe::kBlock
                                ? ValueShape{num_fp8_blocks(padded), width, c10::kFloat}
                                : ValueShape{1, 2, c10::kFloat};
  return SavedColumns{
      tape.value(kind, name + ".input", {width, padded, fp8_scalar_type(Fp8Format::kE4M3)}),
      tape.value(kind, name + ".input_scales", scales)};
}

}  // namespace

Value record_fp8_block_product(OperatorTape& tape, const std::string& name, Value x,
                               const Fp8Layer& layer, std::optional<Value> residual) {
  const ValueShape in = tape.shape(x);
  const Value y = tape.value(ValueKind::kProjection, name, {in.num_rows, layer.width, in.dtype});
  const std::optional<SavedColumns> columns = declare_columns(tape, name, x, layer);
  const auto product = std::make_shared<Fp8BlockProduct>(layer, x, y, residual, columns);
  Operator step;
  step.inputs = {x};
  step.residual = residual;
  step.outputs = {y};
  if (columns) {
    step.outputs.insert(step.outputs.end(), {columns->codes, columns->scales});
    step.needs = {columns->codes, columns->scales};
  } else if (layer.trained) {
    step.needs = {x};
  }
  const std::int64_t multiply_adds = in.numel() * layer.width;
  (layer.trained ? step.multiply_adds.of_rows : step.multiply_adds.of_frozen_rows) = multiply_adds;
  step.multiply_adds.of_fp8_rows = multiply_adds;
  step.multiply_adds.num_fp8_products =
      layer.trained && layer.products == Fp8Products::kAll ? 3 : 2;
  step.forward = [product](OperatorContext& run) { product->forward(run); };
  step.backward = [product](OperatorContext& run) { product->backward(run); };
  tape.record(std::move(step));
  return y;
}

}  // namespace packtrain
