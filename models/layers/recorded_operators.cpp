#include "models/layers/recorded_operators.h"

#include <ATen/ops/add.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

#include "models/block/operator_context.h"
#include "models/layers/declared_parameters.h"
#include "models/ops/fp8/fp8.h"

namespace packtrain {
namespace {

// The tensor that a backward writes its operator's recomputed output to. Undefined when no operator
// needs it.
at::Tensor awaited_output(const OperatorContext& tape, Value y, const at::Tensor& like) {
  return tape.is_recompute_requested(y) ? at::empty_like(like) : at::Tensor();
}

// Where the kernel that writes a tensor enters its amax, if a cast needs it.
at::Tensor amax_for(bool is_needed, const at::Tensor& like) {
  return is_needed ? make_fp8_amax(like) : at::Tensor();
}

// Bytes by which the backward of an MLP with 8-bit products needs more than its activation's
// gradient [T, I] and its input's [T, 2 I]. Either the output again has columns, or the gradient of
// the input has rows and columns when that of the output is freed.
std::int64_t fp8_copies(const ActivationNeighbours& neighbours, const ValueShape& in,
                        const ValueShape& out, bool is_output_saved) {
  const auto num_copies = [](Fp8Products products) -> std::int64_t {
    return products == Fp8Products::kNone ? 0 : products == Fp8Products::kAll ? 2 : 1;
  };
  const std::int64_t of_gradient = num_copies(neighbours.fp8_before) * in.numel() - out.bytes();
  const bool casts_again = neighbours.fp8_after == Fp8Products::kAll && !is_output_saved;
  const std::int64_t of_codes =
      std::max({std::int64_t{0}, of_gradient, casts_again ? out.numel() : 0});
  // Four bytes for each 128 codes.
  return neighbours.recipe == Fp8Recipe::kTensor ? of_codes : of_codes + of_codes / 32;
}

}  // namespace

Value norm(OperatorTape& tape, const std::string& name, Value x, const NormConfig& config,
           bool finds_amax) {
  const ValueShape in = tape.shape(x);
  const NormParameters weights = declare_norm(tape, name, in.width, config);
  const Value y = tape.value(ValueKind::kNormOutput, name, in);
  const Value statistics = tape.value(ValueKind::kStatistics, name + ".statistics",
                                      {in.num_rows, num_statistics(config), c10::kFloat});
  Operator step;
  step.inputs = {x};
  step.outputs = {y, statistics};
  step.needs = {x, statistics};
  step.recomputes_output = true;
  step.forward = [=](OperatorContext& run) {
    const at::Tensor rows = run.get(x);
    const at::Tensor amax = amax_for(finds_amax, rows);
    NormOutput output = norm_forward(rows, weights.of(run), config, amax);
    run.set(y, std::move(output.y), amax);
    run.set_all(statistics, std::move(output.statistics));
  };
  step.backward = [=](OperatorContext& run) {
    const at::Tensor rows = run.get(x);
    const at::Tensor again = awaited_output(run, y, rows);
    run.set_gradient(x, norm_backward(run.gradient(y), rows, run.get_all(statistics),
                                      weights.of(run), config, run.gradient(x), again));
    if (again.defined()) run.set(y, again);
  };
  tape.record(std::move(step));
  return y;
}

Value activation(OperatorTape& tape, const std::string& name, Value x, const Activation& activation,
                 const ActivationNeighbours& neighbours) {
  const ValueShape in = tape.shape(x);
  const ValueShape out = {in.num_rows, activation.gated ? in.width / 2 : in.width, in.dtype};
  const Value y = tape.value(ValueKind::kActivationOutput, name, out);
  Operator step;
  step.inputs = {x};
  step.outputs = {y};
  step.needs = {x};
  step.recomputes_output = true;
  step.forward = [=](OperatorContext& run) {
    const at::Tensor rows = run.get(x);
    const at::Tensor amax = amax_for(needs_amax(neighbours.fp8_after, neighbours.recipe), rows);
    run.set(y, activation_forward(rows, activation, amax), amax);
  };
  step.backward = [=](OperatorContext& run) {
    const at::Tensor grad = run.gradient(y);
    const at::Tensor in = run.get(x);  // read by no other backward
    const bool recomputes = run.is_recompute_requested(y);
    const at::Tensor amax = amax_for(needs_amax(neighbours.fp8_before, neighbours.recipe), in);
    activation_backward_in_place(grad, in, activation, recomputes, amax);
    run.set_gradient(x, in, amax);
    if (recomputes) run.set(y, grad);
  };
  step.memory = activation_memory(tape, x, out, neighbours);
  tape.record(std::move(step));
  return y;
}

BackwardMemoryOf activation_memory(const OperatorTape& tape, Value x, const ValueShape& out,
                                   const ActivationNeighbours& neighbours) {
  if (!neighbours.may_peak) return nullptr;
  const ValueShape in = tape.shape(x);
  const ValueKind kind = tape.kind(x);
  const bool saves_codes =
      neighbours.fp8_after == Fp8Products::kAll;  // which are values of the tape
  return [=](const MicroBatchShape&, const RecomputePolicy& policy) -> BackwardMemory {
    // Of layers that are recomputed whole the plan counts it itself.
    const bool is_again = !policy.keeps(kind) && policy.keeps(ValueKind::kProjection);
    // A saved one is freed when the products that read it have ended, before x is needed.
    const bool is_saved = policy.keeps(ValueKind::kActivationOutput) && !is_again;
    return {"MLP backward",
            {{"gradient of the MLP's activation", out.bytes()},
             {"input of the MLP's activation", is_again ? in.bytes() : 0},
             {"MLP's activation", is_saved && !saves_codes ? out.bytes() : 0},
             {"8-bit copies in the MLP", fp8_copies(neighbours, in, out, is_saved)}}};
  };
}

Value add(OperatorTape& tape, const std::string& name, Value x, Value y, double scale) {
  const Value sum = tape.value(ValueKind::kProjection, name, tape.shape(x));
  Operator step;
  step.inputs = {y};
  step.residual = x;
  step.outputs = {sum};
  step.forward = [=](OperatorContext& run) {
    run.set(sum, at::add(run.get(x), run.get(y), scale));
  };
  step.backward = [=](OperatorContext& run) {
    const at::Tensor grad = run.gradient(sum);
    run.add_gradient(x, grad);
    run.add_gradient(y, scale == 1.0 ? grad : at::mul(grad, scale));
  };
  tape.record(std::move(step));
  return sum;
}

Value select_supervised_rows(OperatorTape& tape, const std::string& name, Value x) {
  const ValueShape in = tape.shape(x);
  const Value y =
      tape.value(ValueKind::kProjection, name, {tape.num_supervised_rows(), in.width, in.dtype});
  Operator step;
  step.inputs = {x};
  step.outputs = {y};
  step.forward = [=](OperatorContext& run) {
    run.set(y, at::index_select(run.get(x), 0, run.batch().loss_index));
  };
  step.backward = [=](OperatorContext& run) {
    const at::Tensor grad = run.gradient(y);
    at::Tensor whole = at::zeros({in.num_rows, grad.size(1)}, grad.options());
    // Rows are distinct: one writer each.
    whole.index_copy_(0, run.batch().loss_index.to(at::kLong), grad);
    run.add_gradient(x, whole);
  };
  tape.record(std::move(step));
  return y;
}

}  // namespace packtrain
