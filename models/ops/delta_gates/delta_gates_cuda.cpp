#include "models/ops/delta_gates/delta_gates.h"

#include <ATen/ops/empty.h>

#include <cstdint>
#include <string>
#include <vector>

#include "framework/core/error.h"
#include "models/ops/cuda/column_sums.h"
#include "models/ops/cuda/current_stream.h"
#include "models/ops/cuda/gradient_target.h"
#include "models/ops/delta_gates/delta_gates_launch.h"

namespace packtrain {
namespace {

// Keeps what the kernels read alive.
struct GatesOperands {
  at::Tensor mixed;
  at::Tensor ba;
  at::Tensor a_log;
  at::Tensor dt_bias;

  GatesOperands(const at::Tensor& mixed_rows, const at::Tensor& ba_rows, const DeltaGates& gates)
      : mixed(mixed_rows.stride(1) == 1 ? mixed_rows : mixed_rows.contiguous()),
        ba(ba_rows.contiguous()),
        a_log(gates.a_log.value.to(at::kFloat)),
        dt_bias(gates.dt_bias.value.to(at::kFloat)) {}

  DeltaGatesArguments arguments(const DeltaGates& gates) const {
    DeltaGatesArguments arguments;
    arguments.mixed = mixed.const_data_ptr();
    arguments.ba = ba.const_data_ptr();
    arguments.a_log = a_log.const_data_ptr<float>();
    arguments.dt_bias = dt_bias.const_data_ptr<float>();
    arguments.num_rows = mixed.size(0);
    arguments.mixed_stride = mixed.stride(0);
    arguments.num_key_heads = static_cast<int>(gates.num_key_heads);
    arguments.key_head_dim = static_cast<int>(gates.key_head_dim);
    arguments.num_heads = static_cast<int>(ba.size(1) / 2);
    arguments.value_width = mixed.size(1) - 2 * gates.num_key_heads * gates.key_head_dim;
    arguments.beta_multiplier = static_cast<float>(gates.beta_multiplier);
    arguments.dtype = float_type_of(mixed, "delta gates");
    if (arguments.num_heads > kDeltaGatesMaxHeads) {
      throw Error(ErrorCategory::kInternal,
                  "delta gates: got " + std::to_string(arguments.num_heads) +
                      " heads of values, wanted at most " + std::to_string(kDeltaGatesMaxHeads));
    }
    return arguments;
  }
};

void add_parameter_sums(DeltaGatesArguments& arguments, const at::Tensor& like,
                        const DeltaGates& gates) {
  ColumnSumsArguments sums;
  sums.num_columns = arguments.num_heads;
  sums.num_partials = delta_gates_backward_blocks(arguments);
  sums.num_targets = 2;
  sums.targets[0] = gradient_target(&gates.a_log, "delta gates");
  sums.targets[1] = gradient_target(&gates.dt_bias, "delta gates");
  const bool wanted = sums.targets[0].grad != nullptr || sums.targets[1].grad != nullptr;
  at::Tensor partials;
  if (wanted) {
    partials =
        at::empty({sums.num_partials, 2, sums.num_columns}, like.options().dtype(at::kFloat));
    arguments.partials = partials.data_ptr<float>();
    sums.partials = arguments.partials;
  }
  launch_delta_gates(arguments, current_stream(like));
  if (wanted) launch_column_sums(sums, current_stream(like));
}

}  // namespace

DeltaRuleInputs delta_gates_forward_cuda(const at::Tensor& mixed, const at::Tensor& ba,
                                         const DeltaGates& gates) {
  const GatesOperands in(mixed, ba, gates);
  DeltaGatesArguments arguments = in.arguments(gates);
  const std::int64_t num_rows = arguments.num_rows;
  const at::TensorOptions wide = in.ba.options().dtype(at::kFloat);
  const std::vector<std::int64_t> heads = {num_rows, gates.num_key_heads, gates.key_head_dim};
  DeltaRuleInputs out{at::empty(heads, in.mixed.options()), at::empty(heads, in.mixed.options()),
                      delta_values(mixed, arguments.num_heads, gates),
                      at::empty({num_rows, arguments.num_heads}, wide),
                      at::empty({num_rows, arguments.num_heads}, wide)};
  arguments.q = out.q.data_ptr();
  arguments.k = out.k.data_ptr();
  arguments.g = out.g.data_ptr<float>();
  arguments.beta = out.beta.data_ptr<float>();
  launch_delta_gates(arguments, current_stream(in.mixed));
  return out;
}

DeltaGatesGradients delta_gates_backward_cuda(const DeltaRuleInputs& grads, const at::Tensor& mixed,
                                              const at::Tensor& ba, const DeltaGates& gates) {
  const GatesOperands in(mixed, ba, gates);
  DeltaGatesArguments arguments = in.arguments(gates);
  const DeltaRuleInputs read{grads.q.contiguous(), grads.k.contiguous(), grads.v.contiguous(),
                             grads.g.contiguous(), grads.beta.contiguous()};
  DeltaGatesGradients out{at::empty(mixed.sizes(), in.mixed.options()),
                          at::empty(ba.sizes(), in.ba.options())};
  arguments.q = read.q.data_ptr();
  arguments.k = read.k.data_ptr();
  arguments.g = read.g.data_ptr<float>();
  arguments.beta = read.beta.data_ptr<float>();
  arguments.grad_v = read.v.const_data_ptr();
  arguments.grad_mixed = out.mixed.data_ptr();
  arguments.grad_ba = out.ba.data_ptr();
  add_parameter_sums(arguments, in.mixed, gates);
  return out;
}

}  // namespace packtrain
