#include <ATen/ops/empty.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <c10/util/StringUtil.h>

#include <memory>

#include "framework/core/error.h"
#include "models/ops/cuda/current_stream.h"
#include "models/ops/delta_rule/device_table_cuda.h"
#include "models/ops/mamba2/ssd.h"
#include "models/ops/mamba2/ssd_launch.h"

namespace packtrain {
namespace {

constexpr const char* kSsdName = "state space model";

// The kernels take rows with gaps between them, but not heads.
at::Tensor ssd_rows(const at::Tensor& x) {
  const bool follow = x.stride(2) == 1 && (x.stride(1) == x.size(2) || x.size(1) == 1);
  return follow ? x : x.contiguous();
}

SsdInputs ssd_kernel_inputs(const SsdInputs& in) {
  return {ssd_rows(in.x), ssd_rows(in.b), ssd_rows(in.c), in.steps.contiguous(), in.g.contiguous()};
}

const DeltaRuleDeviceTable& ssd_table(const SsdInputs& in, const SsdOptions& options,
                                      std::shared_ptr<DeltaRuleTables>& of_call) {
  return sequence_device_table(options.boundaries, in.x,
                               options.tables == nullptr ? of_call : *options.tables);
}

// Sums and states, which forward and backward have.
struct SsdWorkspace {
  at::Tensor sums;
  at::Tensor states;

  SsdWorkspace(const SsdInputs& in, const DeltaRuleDeviceTable& table)
      : sums(at::empty(in.g.sizes(), in.g.options())),
        states(at::empty({table.host.num_slots, in.x.size(1), in.b.size(2), in.x.size(2)},
                         in.g.options())) {}
};

SsdArguments ssd_arguments(const SsdInputs& in, const at::Tensor& skip,
                           const DeltaRuleDeviceTable& table, const SsdWorkspace& workspace) {
  SsdArguments arguments;
  arguments.x = in.x.const_data_ptr();
  arguments.b = in.b.const_data_ptr();
  arguments.c = in.c.const_data_ptr();
  arguments.x_stride = in.x.stride(0);
  arguments.b_stride = in.b.stride(0);
  arguments.c_stride = in.c.stride(0);
  arguments.steps = in.steps.const_data_ptr<float>();
  arguments.g = in.g.const_data_ptr<float>();
  arguments.skip = skip.const_data_ptr<float>();
  arguments.sums = workspace.sums.data_ptr<float>();
  arguments.states = workspace.states.data_ptr<float>();
  arguments.chunks = table.chunks();
  arguments.sequences = table.sequences();
  arguments.num_chunks = static_cast<int>(table.host.chunks.size());
  arguments.num_sequences = static_cast<int>(table.host.sequences.size());
  arguments.has_slots = table.host.num_slots > 0;
  arguments.num_heads = static_cast<int>(in.x.size(1));
  arguments.num_groups = static_cast<int>(in.b.size(1));
  arguments.head_dim = static_cast<int>(in.x.size(2));
  arguments.state_dim = static_cast<int>(in.b.size(2));
  arguments.dtype = float_type_of(in.x, kSsdName);
  return arguments;
}

// The kernels write rows with gaps, but not heads.
void check_gradient_rows(const SsdInputs& grads) {
  for (const at::Tensor& grad : {grads.x, grads.b, grads.c}) {
    if (grad.stride(2) == 1 && (grad.stride(1) == grad.size(2) || grad.size(1) == 1)) continue;
    throw Error(ErrorCategory::kInternal, c10::str(kSsdName, ": got gradients with strides ",
                                                   grad.strides(), ", wanted heads without gaps"));
  }
}

void set_ssd_gradients(SsdArguments& arguments, const SsdInputs& grads) {
  arguments.grad_x = grads.x.data_ptr();
  arguments.grad_b = grads.b.data_ptr();
  arguments.grad_c = grads.c.data_ptr();
  arguments.grad_x_stride = grads.x.stride(0);
  arguments.grad_b_stride = grads.b.stride(0);
  arguments.grad_c_stride = grads.c.stride(0);
  arguments.grad_steps = grads.steps.data_ptr<float>();
  arguments.grad_g = grads.g.data_ptr<float>();
}

}  // namespace

at::Tensor ssd_forward_cuda(const SsdInputs& inputs, const at::Tensor& skip,
                            const SsdOptions& options) {
  const SsdInputs in = ssd_kernel_inputs(inputs);
  const at::Tensor y = at::empty(in.x.sizes(), in.x.options());
  if (y.numel() == 0) return y;
  std::shared_ptr<DeltaRuleTables> of_call;
  const DeltaRuleDeviceTable& table = ssd_table(in, options, of_call);
  const SsdWorkspace workspace(in, table);
  SsdArguments arguments = ssd_arguments(in, skip, table, workspace);
  arguments.output = y.data_ptr();
  launch_ssd_states(arguments, current_stream(in.x));
  launch_ssd_output(arguments, current_stream(in.x));
  return y;
}

at::Tensor ssd_backward_cuda(const at::Tensor& grad_output, const SsdInputs& inputs,
                             const at::Tensor& skip, const SsdOptions& options,
                             const SsdInputs& grads) {
  const SsdInputs in = ssd_kernel_inputs(inputs);
  if (in.x.numel() == 0) return at::zeros(skip.sizes(), skip.options());
  check_gradient_rows(grads);
  std::shared_ptr<DeltaRuleTables> of_call;
  const DeltaRuleDeviceTable& table = ssd_table(in, options, of_call);
  const SsdWorkspace workspace(in, table);
  const at::Tensor grad_states = at::empty(workspace.states.sizes(), in.g.options());
  const at::Tensor partials =
      at::empty({std::ssize(table.host.chunks), in.x.size(1)}, in.g.options());
  const at::Tensor grad = grad_output.contiguous();
  SsdArguments arguments = ssd_arguments(in, skip, table, workspace);
  set_ssd_gradients(arguments, grads);
  arguments.grad_output = grad.const_data_ptr();
  arguments.grad_states = grad_states.data_ptr<float>();
  arguments.skip_partials = partials.data_ptr<float>();
  launch_ssd_states(arguments, current_stream(in.x));
  launch_ssd_gradients(arguments, current_stream(in.x));
  return partials.sum(0);
}

}  // namespace packtrain
