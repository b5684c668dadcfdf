// The copies of rows before the first layer, and their mean after the last one.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>

#include <vector>

#include "models/block/operator_context.h"
#include "models/layers/recorded_altup.h"

namespace packtrain {
namespace {

// Gradients of `first` and of the projections that have its magnitude, from those of all, [rows, H]
// each.
void backward_of_magnitudes(OperatorContext& run, Value first,
                            const std::vector<Value>& projections,
                            const std::vector<at::Tensor>& grads) {
  const at::Tensor target = run.get(first);
  const at::Tensor of_first = at::empty_like(target);
  std::vector<at::Tensor> of_projections;
  for (const Value p : projections) of_projections.push_back(at::empty_like(run.get(p)));
  for_row_blocks(target.size(0), [&](std::int64_t begin, std::int64_t size) {
    const auto block = [&](const at::Tensor& rows) { return rows.narrow(0, begin, size); };
    at::Tensor sum = block(grads.front()).to(at::kFloat, /*non_blocking=*/false, /*copy=*/true);
    for (std::size_t i = 0; i < projections.size(); ++i) {
      const MagnitudeGradients part = match_magnitude_backward(
          block(grads[i + 1]), block(run.get(projections[i])), block(target));
      block(of_projections[i]).copy_(part.p);
      sum.add_(part.target);
    }
    block(of_first).copy_(sum);
  });
  for (std::size_t i = 0; i < projections.size(); ++i) {
    run.add_gradient(projections[i], of_projections[i]);
  }
  run.add_gradient(first, of_first);
}

std::vector<Value> joined(Value first, const std::vector<Value>& others) {
  std::vector<Value> all = {first};
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

}  // namespace

Value altup_expand(OperatorTape& tape, const std::string& name, Value x,
                   const std::vector<Value>& projections) {
  const ValueShape in = tape.shape(x);
  const std::int64_t copies = 1 + std::ssize(projections);
  const Value y =
      tape.value(ValueKind::kNormOutput, name, {in.num_rows, copies * in.width, in.dtype});
  Operator step;
  step.inputs = step.needs = joined(x, projections);
  step.outputs = {y};
  step.forward = [=](OperatorContext& run) {
    const at::Tensor target = run.get(x);
    const at::Tensor all = at::empty({in.num_rows, copies * in.width}, target.options());
    for_row_blocks(in.num_rows, [&](std::int64_t begin, std::int64_t size) {
      const auto block = [&](const at::Tensor& rows) { return rows.narrow(0, begin, size); };
      block(all).narrow(1, 0, in.width).copy_(block(target));
      for (std::int64_t i = 1; i < copies; ++i) {
        const at::Tensor p = run.get(projections[static_cast<std::size_t>(i - 1)]);
        block(all)
            .narrow(1, i * in.width, in.width)
            .copy_(match_magnitude(block(p), block(target)));
      }
    });
    run.set(y, all);
  };
  step.backward = [=](OperatorContext& run) {
    const at::Tensor grad = run.gradient(y);
    std::vector<at::Tensor> grads;
    for (std::int64_t i = 0; i < copies; ++i)
      grads.push_back(grad.narrow(1, i * in.width, in.width));
    backward_of_magnitudes(run, x, projections, grads);
  };
  tape.record(std::move(step));
  return y;
}

Value altup_merge(OperatorTape& tape, const std::string& name, Value first,
                  const std::vector<Value>& projections) {
  const Value y = tape.value(ValueKind::kProjection, name, tape.shape(first));
  const double share = 1.0 / static_cast<double>(1 + projections.size());
  Operator step;
  step.inputs = step.needs = joined(first, projections);
  step.outputs = {y};
  step.forward = [=](OperatorContext& run) {
    const at::Tensor target = run.get(first);
    const at::Tensor mean = at::empty_like(target);
    for_row_blocks(target.size(0), [&](std::int64_t begin, std::int64_t size) {
      const auto block = [&](const at::Tensor& rows) { return rows.narrow(0, begin, size); };
      at::Tensor sum = block(target).to(at::kFloat, /*non_blocking=*/false, /*copy=*/true);
      for (const Value p : projections) sum.add_(match_magnitude(block(run.get(p)), block(target)));
      block(mean).copy_(sum.mul_(share));
    });
    run.set(y, mean);
  };
  step.backward = [=](OperatorContext& run) {
    const at::Tensor grad = at::mul(run.gradient(y), share);
    backward_of_magnitudes(run, first, projections,
                           std::vector<at::Tensor>(1 + projections.size(), grad));
  };
  tape.record(std::move(step));
  return y;
}

}  // namespace packtrain
