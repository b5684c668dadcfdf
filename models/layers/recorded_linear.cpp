// The linear layer with its low-rank update, recorded on the block's tape.
#include <memory>
#include <utility>
#include <vector>

#include "models/block/operator_context.h"
#include "models/layers/declared_parameters.h"
#include "models/layers/recorded_operators.h"
#include "models/ops/linear/linear.h"
#include "models/ops/linear/lora.h"

namespace packtrain {
namespace {

// The parameters of the update of a weight, and s = scale x A^T, which its output adds.
struct LowRankUpdate {
  std::shared_ptr<const LoraModules> modules;
  LoraParameters parameters;
  Value s;

  std::vector<const Parameter*> b_of(const OperatorContext& run) const {
    std::vector<const Parameter*> b;
    for (const ParameterId id : parameters.b) b.push_back(&run.parameter(id));
    return b;
  }
};

// The products with A of all modules, with dropout where the batch has row seeds.
struct LoraA {
  ParameterId a;
  std::shared_ptr<const LoraModules> modules;
  double probability = 0;
  bool selected = false;  // x has the supervised rows alone

  bool drops(const OperatorContext& run) const {
    return probability > 0 && run.batch().row_seeds.defined();
  }
  LoraDropout dropout(const OperatorContext& run) const {
    const DeviceBatch& batch = run.batch();
    return {selected ? batch.row_seeds.index_select(0, batch.loss_index) : batch.row_seeds,
            probability};
  }

  at::Tensor forward(const OperatorContext& run, const at::Tensor& x) const {
    const GemmTiming& timing = run.options().gemm_timing;
    const Parameter& weight = run.parameter(a);
    at::Tensor s = drops(run) ? dropped_forward(x, weight, *modules, dropout(run), timing)
                              : linear_forward(x, weight, nullptr, timing);
    scale_modules(s, *modules);
    return s;
  }
  void backward_input(OperatorContext& run, Value x, const at::Tensor& grad) const {
    const GemmTiming& timing = run.options().gemm_timing;
    const Parameter& weight = run.parameter(a);
    if (drops(run)) {
      run.add_gradient(x, dropped_backward_input(grad, weight, *modules, dropout(run), timing));
    } else {
      run.set_gradient(x, linear_backward_input(grad, weight, timing, run.gradient(x)));
    }
  }
  void backward_weight(OperatorContext& run, const at::Tensor& x, const at::Tensor& grad) const {
    const Parameter& weight = run.parameter(a);
    const LoraDropout mask = drops(run) ? dropout(run) : LoraDropout{};
    run.weight_grads().run_or_defer([=, *this, &weight, &timing = run.options().gemm_timing] {
      if (mask.probability > 0) {
        dropped_backward_weight(grad, x, weight, *modules, mask, timing);
      } else {
        linear_backward_weight(grad, x, weight, nullptr, timing);
      }
    });
  }
};

Value record_lora_a(OperatorTape& tape, const std::string& name, Value x, const LoraA& products) {
  const ValueShape in = tape.shape(x);
  const std::int64_t rank = total_rank(*products.modules);
  const Value s =
      tape.value(ValueKind::kStatistics, name + ".lora_A", {in.num_rows, rank, in.dtype});
  Operator step;
  step.inputs = {x};
  step.outputs = {s};
  step.needs = {x};
  step.multiply_adds.of_rows = in.numel() * rank;
  step.forward = [=](OperatorContext& run) { run.set(s, products.forward(run, run.get(x))); };
  step.backward = [=](OperatorContext& run) {
    const at::Tensor grad = run.gradient(s);
    scale_modules(grad, *products.modules);
    products.backward_input(run, x, grad);
    run.when_available(
        x, [=, &run](const at::Tensor& rows) { products.backward_weight(run, rows, grad); });
  };
  tape.record(std::move(step));
  return s;
}

LowRankUpdate record_update(OperatorTape& tape, const std::string& name, Value x,
                            const LinearOptions& options) {
  LowRankUpdate update{options.lora, {}, {}};
  update.parameters = declare_lora(tape, name, *update.modules, tape.shape(x).width);
  const bool selected = tape.shape(x).num_rows != tape.num_rows();
  update.s = record_lora_a(tape, name, x,
                           {update.parameters.a, options.lora, options.lora_dropout, selected});
  return update;
}

// Adds the gradients of the update: of s, and of B.
void lora_backward(OperatorContext& run, const LowRankUpdate& update, const at::Tensor& grad) {
  const std::vector<const Parameter*> b = update.b_of(run);
  const GemmTiming& timing = run.options().gemm_timing;
  run.set_gradient(update.s, lora_backward_input(grad, *update.modules, b, timing));
  const at::Tensor s = run.get(update.s);
  run.weight_grads().run_or_defer([=, modules = update.modules, &timing] {
    lora_backward_weight(grad, s, *modules, b, timing);
  });
}

}  // namespace

Value linear(OperatorTape& tape, const std::string& name, Value x, const LinearOptions& options,
             std::optional<Value> residual) {
  const ValueShape in = tape.shape(x);
  const std::int64_t width = options.width;
  const bool trained = options.trained;
  const ParameterId weight_id =
      declare_weight(tape, name + ".weight", {width, in.width}, options.standard_deviation);
  const ParameterId bias_id = declare_bias(tape, name + ".bias", {width}, options.bias);
  std::optional<LowRankUpdate> update;
  if (options.lora != nullptr) update = record_update(tape, name, x, options);
  const Value y = tape.value(ValueKind::kProjection, name, {in.num_rows, width, in.dtype});
  Operator step;
  step.inputs = {x};
  step.residual = residual;
  step.outputs = {y};
  if (trained) step.needs = {x};
  (trained ? step.multiply_adds.of_rows : step.multiply_adds.of_frozen_rows) = in.numel() * width;
  if (update) {
    step.inputs.push_back(update->s);
    step.needs.push_back(update->s);
    step.multiply_adds.of_rows += lora_multiply_adds(in.num_rows, *update->modules);
  }
  step.forward = [=](OperatorContext& run) {
    const GemmTiming& timing = run.options().gemm_timing;
    const at::Tensor product = linear_forward(run.get(x), run.parameter(weight_id),
                                              run.find(bias_id), timing, run.get(residual));
    if (update) {
      lora_forward(product, run.get(update->s), *update->modules, update->b_of(run), timing);
    }
    run.set(y, product);
  };
  step.backward = [=](OperatorContext& run) {
    const at::Tensor grad = run.gradient(y);
    const Parameter& weight = run.parameter(weight_id);
    const Parameter* bias = run.find(bias_id);
    if (residual) run.add_gradient(*residual, grad);
    if (update) lora_backward(run, *update, grad);
    run.set_gradient(
        x, linear_backward_input(grad, weight, run.options().gemm_timing, run.gradient(x)));
    if (!trained) {
      if (bias != nullptr) linear_backward_bias(grad, *bias);
      return;
    }
    run.when_available(x, [=, &run, &weight](const at::Tensor& rows) {
      run.weight_grads().run_or_defer([=, &weight, &timing = run.options().gemm_timing] {
        linear_backward_weight(grad, rows, weight, bias, timing);
      });
    });
  };
  tape.record(std::move(step));
  return y;
}

}  // namespace packtrain
