// The linear layer with its low-rank update, recorded on the block's tape.
#include <memory>
#include <utility>
#include <vector>

#include "models/block/operator_context.h"
#include "models/layers/declared_parameters.h"
#include "models/layers/low_rank_update.h"
#include "models/layers/recorded_adapters.h"
#include "models/layers/recorded_dora.h"
#include "models/layers/recorded_fp8_block_linear.h"
#include "models/layers/recorded_fp8_linear.h"
#include "models/layers/recorded_operators.h"
#include "models/ops/linear/dora.h"
#include "models/ops/linear/linear.h"
#include "models/ops/linear/lora.h"
#include "models/ops/linear/lora_linear.h"

namespace packtrain {
namespace {

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
  std::vector<ParameterId> magnitudes;
  if (update.use_dora) {
    magnitudes = declare_magnitudes(tape, name, *update.modules, update.adapter);
  }
  const LoraA a{parameters.a, update.modules, update.dropout, in.num_rows != tape.num_rows()};
  return {a, std::move(parameters.b), std::move(magnitudes), record_lora_a(tape, name, x, a)};
}

at::Tensor lora_output(const OperatorContext& run, const LowRankUpdate& update, const at::Tensor& x,
                       const at::Tensor& s, const Parameter& weight, const Parameter* bias,
                       const at::Tensor& residual) {
  const GemmTiming& timing = run.options().gemm_timing;
  const std::vector<const Parameter*> b = parameters_of(run, update.b);
  const LoraDropout dropout = update.a.dropout(run);
  if (update.has_magnitudes() && dropout.probability > 0) {
    return dora_dropped_forward(x, weight, s, update.modules(), b, dropout, timing);
  }
  return lora_linear_forward(x, weight, bias, s, update.modules(), b, timing, residual);
}

// Writes dB and sets the gradient of s. Returns that of x: `sum` with those of both products.
at::Tensor lora_backward(OperatorContext& run, const LowRankUpdate& update, const Parameter& weight,
                         const at::Tensor& grad, const at::Tensor& sum) {
  const GemmTiming& timing = run.options().gemm_timing;
  const LoraModules& modules = update.modules();
  const at::Tensor low = lora_linear_backward_low_rank(grad, run.get(update.s), modules,
                                                       parameters_of(run, update.b), timing);
  run.set_gradient(update.s, low);
  const Parameter& a = run.parameter(update.a.a);
  const LoraDropout dropout = update.a.dropout(run);
  if (update.has_magnitudes() && dropout.probability > 0) {
    return dora_dropped_backward_input(grad, weight, low, a, modules, dropout, timing, sum);
  }
  return lora_linear_backward_input(grad, weight, low, a, modules, dropout, timing, sum);
}

at::Tensor backward_input(const OperatorContext& run, const Parameter& weight,
                          const at::Tensor& grad, const at::Tensor& sum) {
  return linear_backward_input(grad, weight, run.options().gemm_timing, sum);
}

bool multiplies_in_fp8(const LinearOptions& options) {
  return options.fp8 != Fp8Products::kNone && options.updates.empty();
}

// The scales of blocks are found by the cast.
bool has_tensor_scale(const LinearOptions& options) {
  return multiplies_in_fp8(options) && options.recipe == Fp8Recipe::kTensor;
}

// The parameters of a layer, and the updates of its weight.
struct LinearLayer {
  ParameterId weight;
  ParameterId bias;
  std::int64_t width = 0;
  bool trained = true;
  std::optional<LowRankUpdate> update = std::nullopt;
  std::optional<RecordedAdapters> several = std::nullopt;
};

LinearLayer declare_layer(OperatorTape& tape, const std::string& name, Value x,
                          const LinearOptions& options) {
  const std::int64_t width = options.width;
  LinearLayer layer{declare_decodable_weight(tape, name + ".weight", {width, tape.shape(x).width},
                                             options.standard_deviation, has_tensor_scale(options)),
                    declare_bias(tape, name + ".bias", {width}, options.bias), width,
                    options.trained};
  if (options.updates.size() == 1) {
    layer.update = record_update(tape, name, x, options.updates.front());
  }
  if (options.updates.size() > 1) layer.several.emplace(tape, name, x, options.updates);
  return layer;
}

void linear_forward_of(OperatorContext& run, const LinearLayer& layer, Value x,
                       std::optional<Value> residual, Value y) {
  const Parameter& weight = run.parameter(layer.weight);
  const Parameter* bias = run.find(layer.bias);
  const at::Tensor rows = run.get(x);
  const at::Tensor added = run.get(residual);
  if (run.batch().without_adapter) {
    if (layer.update && layer.update->has_magnitudes()) return run.set(y, {});
    return run.set(y, linear_forward(rows, weight, bias, run.options().gemm_timing, added));
  }
  if (layer.several) return run.set(y, layer.several->forward(run, rows, weight, bias, added));
  const at::Tensor s = layer.update ? run.get(layer.update->s) : at::Tensor();
  run.set(y, layer.update ? lora_output(run, *layer.update, rows, s, weight, bias, added)
                          : linear_forward(rows, weight, bias, run.options().gemm_timing, added));
}

void linear_backward_of(OperatorContext& run, const LinearLayer& layer, Value x,
                        std::optional<Value> residual, Value y) {
  const at::Tensor grad = run.gradient(y);
  const Parameter& weight = run.parameter(layer.weight);
  const Parameter* bias = run.find(layer.bias);
  if (residual) run.add_gradient(*residual, grad);
  const at::Tensor sum = run.gradient(x);
  run.set_gradient(x, layer.several  ? layer.several->backward(run, weight, grad, sum)
                      : layer.update ? lora_backward(run, *layer.update, weight, grad, sum)
                                     : backward_input(run, weight, grad, sum));
  if (!layer.trained) {
    if (bias != nullptr) linear_backward_bias(grad, *bias);
    return;
  }
  run.when_available(x, [=, &run, &weight](const at::Tensor& rows) {
    run.weight_grads().run_or_defer([=, &weight, &timing = run.options().gemm_timing] {
      linear_backward_weight(grad, rows, weight, bias, timing);
    });
  });
}

// x W^T with bias, updates and residual, as far as the layer has them.
Value record_product(OperatorTape& tape, const std::string& name, Value x, const LinearLayer& layer,
                     std::optional<Value> residual) {
  const ValueShape in = tape.shape(x);
  const Value y = tape.value(ValueKind::kProjection, name, {in.num_rows, layer.width, in.dtype});
  Operator step;
  step.inputs = {x};
  step.residual = residual;
  step.outputs = {y};
  if (layer.trained) step.needs = {x};
  MultiplyAdds& multiply_adds = step.multiply_adds;
  (layer.trained ? multiply_adds.of_rows : multiply_adds.of_frozen_rows) = in.numel() * layer.width;
  const auto add_update = [&](Value s, std::int64_t of_rows) {
    step.inputs.push_back(s);
    step.needs.push_back(s);
    multiply_adds.of_rows += of_rows;
  };
  if (layer.update) {
    add_update(layer.update->s, lora_multiply_adds(in.num_rows, layer.update->modules()));
  }
  if (layer.several) add_update(layer.several->s(), layer.several->multiply_adds(in.num_rows));
  step.forward = [=](OperatorContext& run) { linear_forward_of(run, layer, x, residual, y); };
  step.backward = [=](OperatorContext& run) { linear_backward_of(run, layer, x, residual, y); };
  tape.record(std::move(step));
  return y;
}

}  // namespace

Value linear(OperatorTape& tape, const std::string& name, Value x, const LinearOptions& options,
             std::optional<Value> residual) {
  LinearLayer layer = declare_layer(tape, name, x, options);
  if (multiplies_in_fp8(options)) {
    const Fp8Layer fp8{layer.weight,  layer.bias,  layer.width,
                       layer.trained, options.fp8, options.recipe};
    return options.recipe == Fp8Recipe::kTensor
               ? record_fp8_product(tape, name, x, fp8, residual)
               : record_fp8_block_product(tape, name, x, fp8, residual);
  }
  if (!layer.update || !layer.update->has_magnitudes()) {
    return record_product(tape, name, x, layer, residual);
  }
  const ParameterId bias = std::exchange(layer.bias, {});
  const Value norms = record_dora_norms(tape, name, layer.width, layer.weight, *layer.update);
  const Value z = record_product(tape, name + ".unscaled", x, layer, std::nullopt);
  return record_dora_scale(tape, name, z, *layer.update, {x, norms, layer.weight, bias, residual});
}

}  // namespace packtrain
