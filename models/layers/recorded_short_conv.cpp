#include "models/layers/recorded_short_conv.h"

#include <ATen/ops/empty.h>

#include <cstdint>
#include <utility>

#include "models/block/operator_context.h"
#include "models/layers/mixer_conv.h"
#include "models/ops/short_conv/short_conv.h"

namespace packtrain {
namespace {

CausalConvOptions short_conv_options(const OperatorContext& run) {
  return conv_options(run, "the short convolution", /*silu=*/false);
}

}  // namespace

Value short_conv(OperatorTape& tape, const std::string& name, Value projection,
                 const ShortConvOptions& options) {
  const ValueShape in = tape.shape(projection);
  const ValueShape out = {in.num_rows, in.width / 3, in.dtype};
  const MixerConvIds ids = declare_conv(
      tape, name + ".conv",
      {out.width, options.config.width, options.config.bias, options.standard_deviation});
  const Value y = tape.value(ValueKind::kActivationOutput, name, out);
  Operator step;
  step.inputs = {projection};
  step.outputs = {y};
  step.needs = {projection};
  step.recomputes_output = true;
  step.multiply_adds.of_rows = out.numel() * options.config.width;
  step.forward = [=](OperatorContext& run) {
    run.set(y, short_conv_forward(run.get(projection), ids.of(run), short_conv_options(run)));
  };
  step.backward = [=](OperatorContext& run) {
    const at::Tensor rows = run.get(projection);
    const bool recomputes = run.is_recompute_requested(y);
    at::Tensor again;
    if (recomputes) again = at::empty({rows.size(0), rows.size(1) / 3}, rows.options());
    run.set_gradient(projection, short_conv_backward(run.gradient(y), rows, ids.of(run),
                                                     short_conv_options(run), again));
    if (recomputes) run.set(y, again);
  };
  step.memory = [=](const MicroBatchShape& size, const RecomputePolicy& policy) {
    const bool again = !policy.keeps(ValueKind::kActivationOutput);
    const std::int64_t products = size.on_gpu ? 0 : 4 * out.bytes();  // a kernel keeps none
    return BackwardMemory{"short convolution backward",
                          {{"gradient of the short convolution's output", out.bytes()},
                           {"gradient of the short convolution's projection", in.bytes(), true},
                           {"short convolution's products", products, true},
                           {"short convolution again", again ? out.bytes() : 0}}};
  };
  tape.record(std::move(step));
  return y;
}

}  // namespace packtrain
