#include <ATen/ops/empty.h>

#include <memory>

#include "framework/device/cuda/architecture.h"
#include "framework/device/device.h"
#include "models/block/operator_tape.h"
#include "models/ops/cuda/current_stream.h"
#include "models/ops/delta_rule/delta_rule.h"
#include "models/ops/delta_rule/delta_rule_bytes.h"
#include "models/ops/delta_rule/delta_rule_launch.h"
#include "models/ops/delta_rule/device_table_cuda.h"
#include "models/ops/delta_rule/general_launch.h"

namespace packtrain {
namespace {

constexpr const char* kDeltaRuleName = "delta rule";

// The kernels take rows with gaps between them, but not heads.
at::Tensor head_rows(const at::Tensor& x) {
  const bool follow = x.stride(2) == 1 && (x.stride(1) == x.size(2) || x.size(1) == 1);
  return follow ? x : x.contiguous();
}

// Sets what both kinds of kernels have in common.
template <class Arguments>
void set_inputs(Arguments& arguments, const DeltaRuleInputs& in, const DeltaRuleOptions& options,
                const DeltaRuleDeviceTable& table) {
  arguments.q = in.q.const_data_ptr();
  arguments.k = in.k.const_data_ptr();
  arguments.v = in.v.const_data_ptr();
  arguments.q_stride = in.q.stride(0);
  arguments.k_stride = in.k.stride(0);
  arguments.v_stride = in.v.stride(0);
  arguments.g = in.g.const_data_ptr<float>();
  arguments.beta = in.beta.const_data_ptr<float>();
  arguments.chunks = table.chunks();
  arguments.num_key_heads = static_cast<int>(in.q.size(1));
  arguments.num_heads = static_cast<int>(in.v.size(1));
  arguments.key_dim = static_cast<int>(in.q.size(2));
  arguments.value_dim = static_cast<int>(in.v.size(2));
  arguments.scale = static_cast<float>(options.scale);
}

template <class Arguments>
void set_gradients(Arguments& arguments, const at::Tensor& grad_output,
                   const DeltaRuleInputs& grads) {
  arguments.grad_output = grad_output.const_data_ptr();
  arguments.grad_q = grads.q.data_ptr();
  arguments.grad_k = grads.k.data_ptr();
  arguments.grad_v = grads.v.data_ptr();
  arguments.grad_g = grads.g.template data_ptr<float>();
  arguments.grad_beta = grads.beta.template data_ptr<float>();
}

// Those of the batch, or `of_call` for a call without a batch.
std::shared_ptr<DeltaRuleTables>& tables(const DeltaRuleOptions& options,
                                         std::shared_ptr<DeltaRuleTables>& of_call) {
  return options.tables == nullptr ? of_call : *options.tables;
}

// True if rows can be read in vectors of 16 bytes.
bool has_aligned_rows(const at::Tensor& x) {
  return x.stride(0) % 8 == 0 && reinterpret_cast<std::uintptr_t>(x.const_data_ptr()) % 16 == 0;
}

bool has_tensor_core_kernels(const DeltaRuleInputs& in) {
  return delta_rule_on_tensor_cores(in.q.size(2), in.v.size(2), float_type_of(in.v, kDeltaRuleName),
                                    delta_rule_shared_bytes()) &&
         has_aligned_rows(in.q) && has_aligned_rows(in.k) && has_aligned_rows(in.v);
}

class Workspace {
 public:
  Workspace(const DeltaRuleInputs& in, const DeltaRuleTable& table)
      : num_rows_(in.v.size(0)),
        num_heads_(in.v.size(1)),
        key_dim_(in.q.size(2)),
        value_dim_(in.v.size(2)),
        num_chunks_(std::ssize(table.chunks)),
        num_slots_(table.num_slots),
        options_(in.v.options()) {}

  at::Tensor keys(at::ScalarType type) const {
    return make({num_rows_, num_heads_, key_dim_}, type);
  }
  at::Tensor values(at::ScalarType type) const {
    return make({num_rows_, num_heads_, value_dim_}, type);
  }
  at::Tensor scalars() const { return make({num_rows_, num_heads_}, at::kFloat); }
  at::Tensor squares() const {
    return make({num_chunks_, num_heads_, kDeltaRuleChunk, kDeltaRuleChunk}, at::kBFloat16);
  }
  at::Tensor slots() const { return states(num_slots_, at::kBFloat16); }
  at::Tensor states(std::int64_t count, at::ScalarType type) const {
    return make({count, num_heads_, key_dim_, value_dim_}, type);
  }

 private:
  at::Tensor make(at::IntArrayRef shape, at::ScalarType type) const {
    return at::empty(shape, options_.dtype(type));
  }

  std::int64_t num_rows_;
  std::int64_t num_heads_;
  std::int64_t key_dim_;
  std::int64_t value_dim_;
  std::int64_t num_chunks_;
  std::int64_t num_slots_;
  at::TensorOptions options_;
};

DeltaRuleInputs kernel_inputs(const DeltaRuleInputs& in) {
  return {head_rows(in.q), head_rows(in.k), head_rows(in.v), in.g.contiguous(),
          in.beta.contiguous()};
}

// Runs the kernels on tensor cores: forward if `grads` is null.
void run_tensor_cores(const DeltaRuleInputs& in, const DeltaRuleOptions& options,
                      const DeltaRuleDeviceTable& table, const at::Tensor& output,
                      const at::Tensor& grad_output, const DeltaRuleInputs* grads) {
  const Workspace workspace(in, table.host);
  DeltaRuleArguments arguments;
  set_inputs(arguments, in, options, table);
  arguments.num_chunks = static_cast<int>(table.host.chunks.size());
  arguments.shared_bytes = delta_rule_shared_bytes();
  arguments.group_begins = table.group_begins();
  arguments.num_groups = table.division.groups;
  arguments.columns = table.division.columns;
  const at::Tensor sums = workspace.scalars();
  const at::Tensor w = workspace.keys(at::kBFloat16);
  const at::Tensor d = workspace.values(at::kBFloat16);
  const at::Tensor scores = workspace.squares();
  arguments.sums = sums.data_ptr<float>();
  arguments.w = w.data_ptr();
  arguments.d = d.data_ptr();
  arguments.scores = scores.data_ptr();
  void* const stream = current_stream(in.v);
  if (grads == nullptr) {
    arguments.output = output.data_ptr();
    launch_delta_rule_chunks(arguments, stream);
    launch_delta_rule_states(arguments, stream);
    return;
  }
  const at::Tensor inverse = workspace.squares();
  const at::Tensor states = workspace.slots();
  const at::Tensor grad_states = workspace.slots();
  const at::Tensor grad_d = workspace.values(at::kBFloat16);
  set_gradients(arguments, grad_output, *grads);
  arguments.inverse = inverse.data_ptr();
  arguments.states = states.data_ptr();
  arguments.grad_states = grad_states.data_ptr();
  arguments.grad_d = grad_d.data_ptr();
  launch_delta_rule_chunks(arguments, stream);
  launch_delta_rule_states(arguments, stream);
  launch_delta_rule_grad_states(arguments, stream);
  launch_delta_rule_gradients(arguments, stream);
}

void run_general(const DeltaRuleInputs& in, const DeltaRuleOptions& options,
                 const DeltaRuleDeviceTable& table, const at::Tensor& output,
                 const at::Tensor& grad_output, const DeltaRuleInputs* grads) {
  const Workspace workspace(in, table.host);
  DeltaRuleGeneralArguments arguments;
  set_inputs(arguments, in, options, table);
  arguments.sequences = table.sequences();
  arguments.num_sequences = static_cast<int>(table.host.sequences.size());
  arguments.dtype = float_type_of(in.v, kDeltaRuleName);
  const at::Tensor d = workspace.values(at::kFloat);
  const auto num_sequences = std::ssize(table.host.sequences);
  const at::Tensor states = workspace.states(
      grads == nullptr ? num_sequences : std::ssize(table.host.chunks), at::kFloat);
  arguments.d = d.data_ptr<float>();
  arguments.states = states.data_ptr<float>();
  void* const stream = current_stream(in.v);
  if (grads == nullptr) {
    arguments.output = output.data_ptr();
    return launch_delta_rule_general(arguments, stream);
  }
  const at::Tensor grad_d = workspace.values(at::kFloat);
  const at::Tensor grad_states = workspace.states(num_sequences, at::kFloat);
  const at::Tensor grad_q = at::empty(in.q.sizes(), in.q.options().dtype(at::kFloat));
  const at::Tensor grad_k = at::empty(in.q.sizes(), in.q.options().dtype(at::kFloat));
  set_gradients(arguments, grad_output, *grads);
  arguments.grad_d = grad_d.data_ptr<float>();
  arguments.grad_states = grad_states.data_ptr<float>();
  arguments.grad_q_sums = grad_q.data_ptr<float>();
  arguments.grad_k_sums = grad_k.data_ptr<float>();
  launch_delta_rule_general(arguments, stream);
}

}  // namespace

int delta_rule_shared_bytes() {
  static const int bytes =
      num_cuda_devices() > 0 ? max_shared_memory_per_block() : kHopperSharedBytes;
  return bytes;
}

at::Tensor delta_rule_forward_cuda(const DeltaRuleInputs& inputs, const DeltaRuleOptions& options) {
  const DeltaRuleInputs in = kernel_inputs(inputs);
  at::Tensor output = at::empty(in.v.sizes(), in.v.options());
  if (output.numel() == 0) return output;
  std::shared_ptr<DeltaRuleTables> of_call;
  const DeltaRuleDeviceTable& table =
      delta_rule_device_table(in, options, tables(options, of_call));
  if (has_tensor_core_kernels(in)) {
    run_tensor_cores(in, options, table, output, {}, nullptr);
  } else {
    run_general(in, options, table, output, {}, nullptr);
  }
  return output;
}

DeltaRuleInputs delta_rule_backward_cuda(const at::Tensor& grad_output,
                                         const DeltaRuleInputs& inputs,
                                         const DeltaRuleOptions& options) {
  const DeltaRuleInputs in = kernel_inputs(inputs);
  const auto like = [](const at::Tensor& x) { return at::empty(x.sizes(), x.options()); };
  DeltaRuleInputs grads{like(in.q), like(in.k), like(in.v), like(in.g), like(in.beta)};
  if (in.v.numel() == 0) return grads;
  const at::Tensor grad = grad_output.contiguous();
  std::shared_ptr<DeltaRuleTables> of_call;
  const DeltaRuleDeviceTable& table =
      delta_rule_device_table(in, options, tables(options, of_call));
  if (has_tensor_core_kernels(in)) {
    run_tensor_cores(in, options, table, {}, grad, &grads);
  } else {
    run_general(in, options, table, {}, grad, &grads);
  }
  return grads;
}

}  // namespace packtrain
