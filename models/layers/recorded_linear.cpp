// The linear layer with its low-rank update, recorded on the block's tape.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "framework/core/error.h"
#include "models/block/operator_context.h"
#include "models/layers/declared_parameters.h"
#include "models/layers/fp8_base.h"
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

// Writes dB. Returns d(x A^T), and sets it as the gradient of s.
at::Tensor backward_low_rank(OperatorContext& run, const LowRankUpdate& update,
                             const at::Tensor& grad) {
  at::Tensor low =
      lora_linear_backward_low_rank(grad, run.get(update.s), update.modules(),
                                    parameters_of(run, update.b), run.options().gemm_timing);
  run.set_gradient(update.s, low);
  return low;
}

// Returns the gradient of x: `sum` with those of both products.
at::Tensor lora_backward(OperatorContext& run, const LowRankUpdate& update, const Parameter& weight,
                         const at::Tensor& grad, const at::Tensor& sum) {
  const GemmTiming& timing = run.options().gemm_timing;
  const LoraModules& modules = update.modules();
  const at::Tensor low = backward_low_rank(run, update, grad);
  const Parameter& a = run.parameter(update.a.a);
  const LoraDropout dropout = update.a.dropout(run);
  if (update.has_magnitudes() && dropout.probability > 0) {
    return dora_dropped_backward_input(grad, weight, low, a, modules, dropout, timing, sum);
  }
  return lora_linear_backward_input(grad, weight, low, a, modules, dropout, timing, sum);
}

// The scales of blocks are found by the cast. DoRA reads the numbers of the weight too.
bool has_tensor_scale(const LinearOptions& options) {
  const bool reads_numbers = std::ranges::any_of(options.updates, &WeightUpdate::use_dora);
  return options.fp8 != Fp8Products::kNone && options.recipe == Fp8Recipe::kTensor &&
         !reads_numbers;
}

// The parameters of a layer, and the updates of its weight.
struct LinearLayer {
  ParameterId weight;
  ParameterId bias;
  std::int64_t width = 0;
  bool trained = true;
  double scale = 1.0;
  std::optional<LowRankUpdate> update = std::nullopt;
  std::optional<RecordedAdapters> several = std::nullopt;
  std::optional<Fp8Base> fp8 = std::nullopt;  // of a frozen weight with updates
};

LinearLayer declare_layer(OperatorTape& tape, const std::string& name, Value x,
                          const LinearOptions& options) {
  const std::int64_t width = options.width;
  LinearLayer layer{declare_decodable_weight(tape, name + ".weight", {width, tape.shape(x).width},
                                             options.standard_deviation, has_tensor_scale(options)),
                    declare_bias(tape, name + ".bias", {width}, options.bias), width,
                    options.trained, options.scale};
  if (options.updates.size() == 1) {
    layer.update = record_update(tape, name, x, options.updates.front());
  }
  if (options.updates.size() > 1) layer.several.emplace(tape, name, x, options.updates);
  if (options.fp8 != Fp8Products::kNone && !options.updates.empty()) layer.fp8 = {x, layer.weight};
  return layer;
}

// The values of a recorded product.
struct LinearValues {
  Value x;
  std::optional<Value> residual;
  Value y;
  std::optional<Value> weight_scale = std::nullopt;  // with 8-bit operands
};

// x W^T + bias + residual, and with 8-bit operands the update.
at::Tensor base_forward(OperatorContext& run, const LinearLayer& layer, const LinearValues& values,
                        const Fp8LoraForward* update = nullptr) {
  const Parameter* bias = run.find(layer.bias);
  const at::Tensor added = run.get(values.residual);
  if (!layer.fp8) {
    return linear_forward(run.get(values.x), run.parameter(layer.weight), bias,
                          run.options().gemm_timing, added, layer.scale);
  }
  Fp8BaseOutput output = fp8_base_forward(run, *layer.fp8, bias, added, update);
  run.set(*values.weight_scale, std::move(output.weight_scale));
  return output.y;
}

// With the update, in as few passes as the device allows.
at::Tensor lora_output(OperatorContext& run, const LinearLayer& layer, const LinearValues& values) {
  const LowRankUpdate& update = *layer.update;
  const GemmTiming& timing = run.options().gemm_timing;
  const std::vector<const Parameter*> b = parameters_of(run, update.b);
  const at::Tensor s = run.get(update.s);
  if (layer.fp8) {
    const Fp8LoraForward added{s, update.modules(), b};
    return base_forward(run, layer, values, &added);
  }
  const at::Tensor x = run.get(values.x);
  const Parameter& weight = run.parameter(layer.weight);
  const LoraDropout dropout = update.a.dropout(run);
  if (update.has_magnitudes() && dropout.probability > 0) {
    return dora_dropped_forward(x, weight, s, update.modules(), b, dropout, timing);
  }
  return lora_linear_forward(x, weight, run.find(layer.bias), s, update.modules(), b, timing,
                             run.get(values.residual));
}

at::Tensor several_output(OperatorContext& run, const LinearLayer& layer,
                          const LinearValues& values) {
  if (!layer.fp8) {
    return layer.several->forward(run, run.get(values.x), run.parameter(layer.weight),
                                  run.find(layer.bias), run.get(values.residual));
  }
  const Fp8LoraForward update = layer.several->fp8_forward(run);
  return base_forward(run, layer, values, &update);
}

void linear_forward_of(OperatorContext& run, const LinearLayer& layer, const LinearValues& values) {
  const bool without_adapter = run.batch().without_adapter;
  if (without_adapter && layer.update && layer.update->has_magnitudes()) {
    return run.set(values.y, {});  // the scaling multiplies
  }
  const bool has_update = !without_adapter && (layer.update || layer.several);
  run.set(values.y, !has_update    ? base_forward(run, layer, values)
                    : layer.update ? lora_output(run, layer, values)
                                   : several_output(run, layer, values));
}

// Writes dB and sets the gradient of s. Returns what the update adds to the gradient of x.
Fp8LoraBackward fp8_backward_update(OperatorContext& run, const LinearLayer& layer,
                                    const at::Tensor& grad) {
  if (layer.several) return layer.several->fp8_backward(run, grad);
  const LowRankUpdate& update = *layer.update;
  return {backward_low_rank(run, update, grad), run.parameter(update.a.a), update.modules(),
          update.a.dropout(run)};
}

// The gradient of x with 8-bit operands: that of y is freed when the updates have read it.
at::Tensor fp8_backward_input(OperatorContext& run, const LinearLayer& layer,
                              const LinearValues& values) {
  const at::Tensor weight_scale = run.get(*values.weight_scale);
  const Fp8LoraBackward update = fp8_backward_update(run, layer, run.gradient(values.y));
  at::Tensor dx = fp8_base_backward_input(run, *layer.fp8, values.y, weight_scale, update);
  if (layer.several) layer.several->add_dropped_backward_x(run, update.grad_low_rank, dx);
  return dx;
}

at::Tensor backward_input(OperatorContext& run, const LinearLayer& layer,
                          const LinearValues& values) {
  if (layer.fp8) return fp8_backward_input(run, layer, values);
  const at::Tensor grad = run.gradient(values.y);
  const Parameter& weight = run.parameter(layer.weight);
  const at::Tensor sum = run.gradient(values.x);
  if (layer.several) return layer.several->backward(run, weight, grad, sum);
  if (layer.update) return lora_backward(run, *layer.update, weight, grad, sum);
  return linear_backward_input(grad, weight, run.options().gemm_timing, sum, layer.scale);
}

void linear_backward_of(OperatorContext& run, const LinearLayer& layer,
                        const LinearValues& values) {
  const Parameter* bias = run.find(layer.bias);
  if (values.residual) run.add_gradient(*values.residual, run.gradient(values.y));
  if (!layer.trained) {
    if (bias != nullptr) linear_backward_bias(run.gradient(values.y), *bias);
    return run.set_gradient(values.x, backward_input(run, layer, values));
  }
  const at::Tensor grad = run.gradient(values.y);
  const Parameter& weight = run.parameter(layer.weight);
  const double scale = layer.scale;
  run.set_gradient(values.x, backward_input(run, layer, values));
  run.when_available(values.x, [=, &run, &weight](const at::Tensor& rows) {
    run.weight_grads().run_or_defer([=, &weight, &timing = run.options().gemm_timing] {
      linear_backward_weight(grad, rows, weight, bias, timing, scale);
    });
  });
}

// x W^T with bias, updates and residual, as far as the layer has them.
Value record_product(OperatorTape& tape, const std::string& name, Value x, const LinearLayer& layer,
                     std::optional<Value> residual) {
  const ValueShape in = tape.shape(x);
  LinearValues values{
      x, residual, tape.value(ValueKind::kProjection, name, {in.num_rows, layer.width, in.dtype})};
  Operator step;
  step.inputs = {x};
  step.residual = residual;
  step.outputs = {values.y};
  if (layer.trained) step.needs = {x};
  if (layer.fp8) {
    values.weight_scale = tape.value(ValueKind::kStatistics, name + ".scale", {1, 2, c10::kFloat});
    step.outputs.push_back(*values.weight_scale);
    step.needs.push_back(*values.weight_scale);
    step.multiply_adds.of_fp8_rows = in.numel() * layer.width;
    step.multiply_adds.num_fp8_products = 2;
  }
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
  step.forward = [=](OperatorContext& run) { linear_forward_of(run, layer, values); };
  step.backward = [=](OperatorContext& run) { linear_backward_of(run, layer, values); };
  tape.record(std::move(step));
  return values.y;
}

}  // namespace

Value linear(OperatorTape& tape, const std::string& name, Value x, const LinearOptions& options,
             std::optional<Value> residual) {
  if (options.scale != 1.0 && !gemm_may_scale(options)) {
    throw Error(ErrorCategory::kInternal, name + ": other terms are not scaled with the product");
  }
  LinearLayer layer = declare_layer(tape, name, x, options);
  if (options.fp8 != Fp8Products::kNone && options.updates.empty()) {
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
  return record_dora_scale(tape, name, z, *layer.update,
                           {x, norms, layer.weight, bias, residual, layer.fp8});
}

}  // namespace packtrain
