#include "models/layers/recorded_latent_heads.h"

#include <ATen/ops/cat.h>

#include <utility>

#include "models/block/operator_context.h"

namespace packtrain {

SplitColumns split_columns(OperatorTape& tape, const std::string& name, Value x,
                           std::int64_t width) {
  const ValueShape in = tape.shape(x);
  const SplitColumns columns{
      tape.value(ValueKind::kProjection, name + ".first", {in.num_rows, width, in.dtype}),
      tape.value(ValueKind::kProjection, name + ".rest",
                 {in.num_rows, in.width - width, in.dtype})};
  Operator step;
  step.inputs = {x};
  step.outputs = {columns.first, columns.rest};
  step.forward = [=](OperatorContext& run) {
    const at::Tensor rows = run.get(x);
    run.set(columns.first, rows.narrow(1, 0, width).contiguous());
    run.set(columns.rest, rows.narrow(1, width, in.width - width).contiguous());
    run.release(x);
  };
  step.backward = [=](OperatorContext& run) {
    run.add_gradient(x, at::cat({run.gradient(columns.first), run.gradient(columns.rest)}, 1));
    run.set_gradient(columns.rest, at::Tensor());
  };
  tape.record(std::move(step));
  return columns;
}

Value latent_heads(OperatorTape& tape, const std::string& name, Value query, Value key_value,
                   Value key_rope, const LatentHeadShape& shape) {
  const ValueShape rows = tape.shape(query);
  const std::int64_t width = 3 * shape.num_heads * shape.head_dim();
  const Value merged = tape.value(ValueKind::kProjection, name, {rows.num_rows, width, rows.dtype});
  Operator step;
  step.inputs = {query, key_value, key_rope};
  step.outputs = {merged};
  step.forward = [=](OperatorContext& run) {
    const LatentHeads heads{run.get(query), run.get(key_value), run.get(key_rope)};
    run.set(merged, merge_latent_heads(heads, shape).view({-1, width}));
    for (const Value part : {query, key_value, key_rope}) run.release(part);
  };
  step.backward = [=](OperatorContext& run) {
    const at::Tensor grad = run.gradient(merged);
    LatentHeads parts = merge_latent_heads_backward(
        grad.view({grad.size(0), 3 * shape.num_heads, shape.head_dim()}), shape);
    run.set_gradient(query, std::move(parts.query));
    run.set_gradient(key_value, std::move(parts.key_value));
    run.set_gradient(key_rope, std::move(parts.key_rope));
  };
  tape.record(std::move(step));
  return merged;
}

Value values_without_zeros(OperatorTape& tape, const std::string& name, Value y,
                           const LatentHeadShape& shape) {
  const ValueShape in = tape.shape(y);
  // Cheap to recompute from attention's output, which is saved.
  const Value values = tape.value(ValueKind::kActivationOutput, name,
                                  {in.num_rows, shape.num_heads * shape.value_dim, in.dtype});
  Operator step;
  step.inputs = {y};
  step.outputs = {values};
  step.needs = {y};
  step.forward = [=](OperatorContext& run) { run.set(values, leave_out_zeros(run.get(y), shape)); };
  step.backward = [=](OperatorContext& run) {
    run.set_gradient(y, leave_out_zeros_backward(run.gradient(values), shape));
  };
  tape.record(std::move(step));
  return values;
}

}  // namespace packtrain
