#include <ATen/ops/empty.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <memory>

#include "framework/core/error.h"
#include "models/ops/cuda/current_stream.h"
#include "models/ops/delta_rule/delta_rule_bytes.h"
#include "models/ops/delta_rule/device_table_cuda.h"
#include "models/ops/mamba2/ssd.h"
#include "models/ops/mamba2/ssd_bytes.h"
#include "models/ops/mamba2/ssd_launch.h"
#include "models/ops/mamba2/tensor_cores/ssd_tensor_cores.h"

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

SsdSizes sizes_of(const SsdInputs& in) {
  return {in.x.size(0), in.b.size(1), in.x.size(1), in.x.size(2), in.b.size(2)};
}

SsdArguments ssd_arguments(const SsdInputs& in, const at::Tensor& skip,
                           const DeltaRuleDeviceTable& table) {
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
  arguments.chunks = table.chunks();
  arguments.sequences = table.sequences();
  arguments.num_chunks = static_cast<int>(table.host.chunks.size());
  arguments.num_heads = static_cast<int>(in.x.size(1));
  arguments.num_groups = static_cast<int>(in.b.size(1));
  arguments.head_dim = static_cast<int>(in.x.size(2));
  arguments.state_dim = static_cast<int>(in.b.size(2));
  return arguments;
}

bool rows_are_aligned(const at::Tensor& x) {
  return x.stride(0) % 8 == 0 && reinterpret_cast<std::uintptr_t>(x.const_data_ptr()) % 16 == 0;
}

bool has_ssd_tensor_cores(const SsdInputs& in) {
  return ssd_on_tensor_cores(sizes_of(in), float_type_of(in.x, kSsdName),
                             delta_rule_shared_bytes()) &&
         rows_are_aligned(in.x) && rows_are_aligned(in.b) && rows_are_aligned(in.c);
}

// Sums and states, which forward and backward have, of the kernels for all sizes.
struct SsdWorkspace {
  at::Tensor sums;
  at::Tensor states;

  SsdWorkspace(const SsdInputs& in, const DeltaRuleDeviceTable& table)
      : sums(at::empty(in.g.sizes(), in.g.options())),
        states(at::empty({table.host.num_slots, in.x.size(1), in.b.size(2), in.x.size(2)},
                         in.g.options())) {}

  SsdGeneralArguments arguments(const SsdInputs& in, const at::Tensor& skip,
                                const DeltaRuleDeviceTable& table) const {
    SsdGeneralArguments arguments{ssd_arguments(in, skip, table)};
    arguments.sums = sums.data_ptr<float>();
    arguments.states = states.data_ptr<float>();
    arguments.num_sequences = static_cast<int>(table.host.sequences.size());
    arguments.has_slots = table.host.num_slots > 0;
    arguments.dtype = float_type_of(in.x, kSsdName);
    return arguments;
  }
};

// The same of the kernels on tensor cores.
class SsdTensorWorkspace {
 public:
  SsdTensorWorkspace(const SsdInputs& in, const DeltaRuleDeviceTable& table)
      : floats_(in.g.options()),
        sizes_(sizes_of(in)),
        num_slots_(table.host.num_slots),
        rows_(at::empty({4, sizes_.num_heads, sizes_.num_rows}, floats_)),
        scores_(at::empty({2, sizes_.num_rows, sizes_.num_groups, kDeltaRuleChunk}, floats_)),
        states_(slots(in)) {}

  SsdTensorCoreArguments arguments(const SsdInputs& in, const at::Tensor& skip,
                                   const DeltaRuleDeviceTable& table) const {
    SsdTensorCoreArguments arguments{ssd_arguments(in, skip, table)};
    float* const rows = rows_.data_ptr<float>();
    const std::int64_t cells = sizes_.num_heads * sizes_.num_rows;
    arguments.head_sums = rows;
    arguments.head_decays = rows + cells;
    arguments.head_steps = rows + 2 * cells;
    arguments.head_inputs = rows + 3 * cells;
    arguments.scores = scores_.data_ptr<float>();
    arguments.slot_states = states_.data_ptr();
    arguments.num_rows = sizes_.num_rows;
    arguments.head_parts = ssd_head_parts(sizes_, arguments.num_chunks);
    arguments.num_long = num_long(table);
    arguments.column_tiles = ssd_tiles_of(sizes_.head_dim, kSsdStateTile);
    arguments.state_tiles = ssd_tiles_of(sizes_.state_dim, kSsdStateTile);
    arguments.group_tiles = ssd_tiles_of(sizes_.state_dim, kSsdGroupTile);
    arguments.state_parts = ssd_state_parts(sizes_.state_dim, sizes_.head_dim);
    arguments.row_parts = ssd_row_parts(sizes_.state_dim);
    return arguments;
  }

  at::Tensor slots(const SsdInputs& in) const {
    return at::empty({num_slots_, sizes_.num_heads, sizes_.state_dim, sizes_.head_dim},
                     in.x.options());
  }
  at::Tensor state_products() const {
    return at::empty(
        {num_slots_, sizes_.num_heads, ssd_state_parts(sizes_.state_dim, sizes_.head_dim)},
        floats_);
  }
  at::Tensor row_products() const {
    return at::empty({ssd_row_parts(sizes_.state_dim), sizes_.num_rows, sizes_.num_heads}, floats_);
  }
  at::Tensor grad_parts(int head_parts) const {
    return at::empty({4 * head_parts, sizes_.num_rows, sizes_.num_groups, sizes_.state_dim},
                     floats_);
  }

 private:
  // The table has the longest sequences first.
  static int num_long(const DeltaRuleDeviceTable& table) {
    return static_cast<int>(std::ranges::count_if(
        table.host.sequences, [](const DeltaRuleSequence& of) { return of.num_chunks > 1; }));
  }

  at::TensorOptions floats_;
  SsdSizes sizes_;
  std::int64_t num_slots_;
  at::Tensor rows_;
  at::Tensor scores_;
  at::Tensor states_;
};

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

void run_ssd_forward(const SsdInputs& in, const at::Tensor& skip, const DeltaRuleDeviceTable& table,
                     const at::Tensor& y) {
  void* const stream = current_stream(in.x);
  if (has_ssd_tensor_cores(in)) {
    const SsdTensorWorkspace workspace(in, table);
    SsdTensorCoreArguments arguments = workspace.arguments(in, skip, table);
    arguments.output = y.data_ptr();
    launch_ssd_tensor_states(arguments, stream);
    return launch_ssd_tensor_output(arguments, stream);
  }
  const SsdWorkspace workspace(in, table);
  SsdGeneralArguments arguments = workspace.arguments(in, skip, table);
  arguments.output = y.data_ptr();
  launch_ssd_states(arguments, stream);
  launch_ssd_output(arguments, stream);
}

// Tensors that a backward of each kind reads or writes.
struct SsdBackward {
  at::Tensor grad_output;
  at::Tensor skip_partials;
  SsdInputs grads;

  void set(SsdArguments& arguments) const {
    set_ssd_gradients(arguments, grads);
    arguments.grad_output = grad_output.const_data_ptr();
    arguments.skip_partials = skip_partials.data_ptr<float>();
  }
};

void run_tensor_core_backward(const SsdInputs& in, const at::Tensor& skip,
                              const DeltaRuleDeviceTable& table, const SsdBackward& backward) {
  const SsdTensorWorkspace workspace(in, table);
  SsdTensorCoreArguments arguments = workspace.arguments(in, skip, table);
  backward.set(arguments);
  const at::Tensor slot_grads = workspace.slots(in);
  const at::Tensor state_products = workspace.state_products();
  const at::Tensor row_products = workspace.row_products();
  const at::Tensor grad_parts = workspace.grad_parts(arguments.head_parts);
  arguments.slot_grads = slot_grads.data_ptr();
  arguments.state_products = state_products.data_ptr<float>();
  arguments.row_products = row_products.data_ptr<float>();
  arguments.grad_parts = grad_parts.data_ptr<float>();
  void* const stream = current_stream(in.x);
  launch_ssd_tensor_states(arguments, stream);
  launch_ssd_tensor_grad_states(arguments, stream);
  launch_ssd_tensor_grad_rows(arguments, stream);
  launch_ssd_tensor_grad_weights(arguments, stream);
  launch_ssd_tensor_grad_groups(arguments, stream);
  launch_ssd_tensor_sums(arguments, stream);
}

void run_general_backward(const SsdInputs& in, const at::Tensor& skip,
                          const DeltaRuleDeviceTable& table, const SsdBackward& backward) {
  const SsdWorkspace workspace(in, table);
  const at::Tensor grad_states = at::empty(workspace.states.sizes(), in.g.options());
  SsdGeneralArguments arguments = workspace.arguments(in, skip, table);
  backward.set(arguments);
  arguments.grad_states = grad_states.data_ptr<float>();
  launch_ssd_states(arguments, current_stream(in.x));
  launch_ssd_gradients(arguments, current_stream(in.x));
}

}  // namespace

at::Tensor ssd_forward_cuda(const SsdInputs& inputs, const at::Tensor& skip,
                            const SsdOptions& options) {
  const SsdInputs in = ssd_kernel_inputs(inputs);
  const at::Tensor y = at::empty(in.x.sizes(), in.x.options());
  if (y.numel() == 0) return y;
  std::shared_ptr<DeltaRuleTables> of_call;
  run_ssd_forward(in, skip, ssd_table(in, options, of_call), y);
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
  const SsdBackward backward{
      grad_output.contiguous(),
      at::empty({std::ssize(table.host.chunks), in.x.size(1)}, in.g.options()), grads};
  if (has_ssd_tensor_cores(in) && rows_are_aligned(grads.x) && rows_are_aligned(grads.b) &&
      rows_are_aligned(grads.c) && rows_are_aligned(backward.grad_output)) {
    run_tensor_core_backward(in, skip, table, backward);
  } else {
    run_general_backward(in, skip, table, backward);
  }
  return backward.skip_partials.sum(0);
}

}  // namespace packtrain
