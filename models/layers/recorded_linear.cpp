// The linear layer with its low-rank update, recorded on the block's tape.
#include <memory>
#include <utility>
#include <vector>

#include "models/block/operator_context.h"
#include "models/layers/declared_parameters.h"
#include "models/layers/recorded_adapters.h"
#include "models/layers/recorded_operators.h"
#include "models/ops/linear/linear.h"
#include "models/ops/linear/lora.h"
#include "models/ops/linear/lora_linear.h"

namespace packtrain {
namespace {

// The products with A of all modules.
struct LoraA {
  ParameterId a;
  std::shared_ptr<const LoraModules> modules;
  double probability = 0;  // of dropout, where the batch has row seeds
  bool selected = false;   // x has the supervised rows alone

  LoraDropout dropout(const OperatorContext& run) const {
    const DeviceBatch& batch = run.batch();
    if (probability == 0 || !batch.row_seeds.defined()) return {};
    return {selected ? batch.row_seeds.index_select(0, batch.loss_index) : batch.row_seeds,
            probability};
  }
};

// The parameters of the update of a weight, and s = scale x A^T, which its output adds.
struct LowRankUpdate {
  LoraA a;
  std::vector<ParameterId> b;
  Value s;

  const LoraModules& modules() const { return *a.modules; }
  std::vector<const Parameter*> b_of(const OperatorContext& run) const {
    std::vector<const Parameter*> parameters;
    for (const ParameterId id : b) parameters.push_back(&run.parameter(id));
    return parameters;
  }
};

// Its backward writes dA. The linear layer's product sets the gradient of x.
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
  step.forward = [=](OperatorContext& run) {
    if (run.batch().without_adapter) return run.set(s, {});
    run.set(s, lora_low_rank(run.get(x), run.parameter(products.a), *products.modules,
                             products.dropout(run), run.options().gemm_timing));
  };
  step.backward = [=](OperatorContext& run) {
    const at::Tensor grad = run.gradient(s);
    const Parameter& a = run.parameter(products.a);
    const LoraDropout dropout = products.dropout(run);
    run.when_available(x, [=, &run, &a](const at::Tensor& rows) {
      run.weight_grads().run_or_defer([=, &a, &timing = run.options().gemm_timing] {
        lora_backward_a(grad, rows, a, *products.modules, dropout, timing);
      });
    });
  };
  tape.record(std::move(step));
  return s;
}

LowRankUpdate record_update(OperatorTape& tape, const std::string& name, Value x,
                            const WeightUpdate& update) {
  const ValueShape in = tape.shape(x);
  LoraParameters parameters = declare_lora(tape, name, *update.modules, in.width, update.adapter);
  const LoraA a{parameters.a, update.modules, update.dropout, in.num_rows != tape.num_rows()};
  return {a, std::move(parameters.b), record_lora_a(tape, name, x, a)};
}

// Writes dB and sets the gradient of s. Returns that of x: `sum` with those of both products.
at::Tensor lora_backward(OperatorContext& run, const LowRankUpdate& update, const Parameter& weight,
                         const at::Tensor& grad, const at::Tensor& sum) {
  const GemmTiming& timing = run.options().gemm_timing;
  const LoraModules& modules = update.modules();
  const at::Tensor low =
      lora_linear_backward_low_rank(grad, run.get(update.s), modules, update.b_of(run), timing);
  run.set_gradient(update.s, low);
  return lora_linear_backward_input(grad, weight, low, run.parameter(update.a.a), modules,
                                    update.a.dropout(run), timing, sum);
}

at::Tensor backward_input(const OperatorContext& run, const Parameter& weight,
                          const at::Tensor& grad, const at::Tensor& sum) {
  return linear_backward_input(grad, weight, run.options().gemm_timing, sum);
}

}  // namespace

Value linear(OperatorTape& tape, const std::string& name, Value x, const LinearOptions& options,
             std::optional<Value> residual) {
  const ValueShape in = tape.shape(x);
  const std::int64_t width = options.width;
  const bool trained = options.trained;
  const ParameterId weight_id = declare_decodable_weight(tape, name + ".weight", {width, in.width},
                                                         options.standard_deviation);
  const ParameterId bias_id = declare_bias(tape, name + ".bias", {width}, options.bias);
  std::optional<LowRankUpdate> update;
  std::optional<RecordedAdapters> several;
  if (options.updates.size() == 1) update = record_update(tape, name, x, options.updates.front());
  if (options.updates.size() > 1) several.emplace(tape, name, x, options.updates);
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
    step.multiply_adds.of_rows += lora_multiply_adds(in.num_rows, update->modules());
  }
  if (several) {
    step.inputs.push_back(several->s());
    step.needs.push_back(several->s());
    step.multiply_adds.of_rows += several->multiply_adds(in.num_rows);
  }
  step.forward = [=](OperatorContext& run) {
    const GemmTiming& timing = run.options().gemm_timing;
    const Parameter& weight = run.parameter(weight_id);
    const Parameter* bias = run.find(bias_id);
    const at::Tensor rows = run.get(x);
    const at::Tensor added = run.get(residual);
    if (run.batch().without_adapter) {
      return run.set(y, linear_forward(rows, weight, bias, timing, added));
    }
    if (several) return run.set(y, several->forward(run, rows, weight, bias, added));
    const at::Tensor s = update ? run.get(update->s) : at::Tensor();
    run.set(y, update ? lora_linear_forward(rows, weight, bias, s, update->modules(),
                                            update->b_of(run), timing, added)
                      : linear_forward(rows, weight, bias, timing, added));
  };
  step.backward = [=](OperatorContext& run) {
    const at::Tensor grad = run.gradient(y);
    const Parameter& weight = run.parameter(weight_id);
    const Parameter* bias = run.find(bias_id);
    if (residual) run.add_gradient(*residual, grad);
    const at::Tensor sum = run.gradient(x);
    run.set_gradient(x, several  ? several->backward(run, weight, grad, sum)
                        : update ? lora_backward(run, *update, weight, grad, sum)
                                 : backward_input(run, weight, grad, sum));
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
