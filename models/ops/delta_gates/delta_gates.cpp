#include "models/ops/delta_gates/delta_gates.h"

#include <ATen/ops/add.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/rsub.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/sub.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "framework/core/error.h"
#include "models/ops/gradient.h"

namespace packtrain {
namespace {

constexpr double kLengthEpsilon = 1e-6;

void check_gates(const at::Tensor& mixed, const at::Tensor& ba, const DeltaGates& gates) {
  const std::int64_t num_heads = gates.a_log.value.size(0);
  const std::int64_t keys = 2 * gates.num_key_heads * gates.key_head_dim;
  const bool fits = mixed.dim() == 2 && ba.dim() == 2 && mixed.size(0) == ba.size(0) &&
                    ba.size(1) == 2 * num_heads && gates.dt_bias.value.size(0) == num_heads &&
                    keys > 0 && mixed.size(1) > keys && (mixed.size(1) - keys) % num_heads == 0 &&
                    mixed.scalar_type() == ba.scalar_type();
  if (fits) return;
  throw Error(ErrorCategory::kInternal,
              fmt::format("delta gates: rows [{}] with {} heads of {} keys, ba [{}], A [{}] and dt "
                          "[{}] do not fit",
                          fmt::join(mixed.sizes(), ", "), gates.num_key_heads, gates.key_head_dim,
                          fmt::join(ba.sizes(), ", "), fmt::join(gates.a_log.value.sizes(), ", "),
                          fmt::join(gates.dt_bias.value.sizes(), ", ")));
}

// Queries (part 0) or keys (part 1) in float32, [T, G, K].
at::Tensor key_heads(const at::Tensor& mixed, std::int64_t part, const DeltaGates& gates) {
  const std::int64_t width = gates.num_key_heads * gates.key_head_dim;
  return mixed.narrow(1, part * width, width)
      .to(at::kFloat)
      .view({mixed.size(0), gates.num_key_heads, gates.key_head_dim});
}

at::Tensor inverse_length(const at::Tensor& heads) {
  return at::mul(heads, heads)
      .sum(at::IntArrayRef{2}, /*keepdim=*/true)
      .add_(kLengthEpsilon)
      .rsqrt_();
}

at::Tensor unit_heads(const at::Tensor& mixed, std::int64_t part, const DeltaGates& gates) {
  const at::Tensor heads = key_heads(mixed, part, gates);
  return at::mul(heads, inverse_length(heads)).to(mixed.scalar_type());
}

at::Tensor unit_gradient(const at::Tensor& grad, const at::Tensor& mixed, std::int64_t part,
                         const DeltaGates& gates) {
  const at::Tensor heads = key_heads(mixed, part, gates);
  const at::Tensor inverse = inverse_length(heads);
  const at::Tensor unit = at::mul(heads, inverse);
  const at::Tensor along = at::mul(unit, grad).sum(at::IntArrayRef{2}, /*keepdim=*/true);
  return at::sub(grad.to(at::kFloat), at::mul(unit, along)).mul_(inverse);
}

// b (part 0) or a (part 1) in float32, [T, H].
at::Tensor gate_part(const at::Tensor& ba, std::int64_t part) {
  const std::int64_t num_heads = ba.size(1) / 2;
  return ba.narrow(1, part * num_heads, num_heads).to(at::kFloat);
}

at::Tensor rate(const DeltaGates& gates) {
  return at::exp(gates.a_log.value.to(at::kFloat)).neg_();
}

at::Tensor shifted_a(const at::Tensor& ba, const DeltaGates& gates) {
  return at::add(gate_part(ba, 1), gates.dt_bias.value.to(at::kFloat));
}

}  // namespace

at::Tensor delta_values(const at::Tensor& mixed, std::int64_t num_heads, const DeltaGates& gates) {
  const std::int64_t begin = 2 * gates.num_key_heads * gates.key_head_dim;
  const std::int64_t width = mixed.size(1) - begin;
  return mixed.narrow(1, begin, width).view({mixed.size(0), num_heads, width / num_heads});
}

DeltaRuleInputs delta_gates_forward(const at::Tensor& mixed, const at::Tensor& ba,
                                    const DeltaGates& gates) {
  check_gates(mixed, ba, gates);
  if (mixed.is_cuda()) return delta_gates_forward_cuda(mixed, ba, gates);
  return {unit_heads(mixed, 0, gates), unit_heads(mixed, 1, gates),
          delta_values(mixed, ba.size(1) / 2, gates),
          at::mul(at::softplus(shifted_a(ba, gates)), rate(gates)),
          at::sigmoid(gate_part(ba, 0)).mul_(gates.beta_multiplier)};
}

DeltaGatesGradients delta_gates_backward(const DeltaRuleInputs& grads, const at::Tensor& mixed,
                                         const at::Tensor& ba, const DeltaGates& gates) {
  check_gates(mixed, ba, gates);
  if (mixed.is_cuda()) return delta_gates_backward_cuda(grads, mixed, ba, gates);
  DeltaGatesGradients out{at::empty_like(mixed, at::MemoryFormat::Contiguous), {}};
  const std::int64_t width = gates.num_key_heads * gates.key_head_dim;
  for (const std::int64_t part : {0, 1}) {
    const at::Tensor grad = unit_gradient(part == 0 ? grads.q : grads.k, mixed, part, gates);
    out.mixed.narrow(1, part * width, width).copy_(grad.view({mixed.size(0), width}));
  }
  delta_values(out.mixed, ba.size(1) / 2, gates).copy_(grads.v);

  const at::Tensor a = shifted_a(ba, gates);
  const at::Tensor grad_a = at::mul(grads.g, rate(gates)).mul_(at::sigmoid(a));
  write_gradient(gates.dt_bias, grad_a.sum(at::IntArrayRef{0}));
  write_gradient(gates.a_log, at::mul(grads.g, at::softplus(a)).mul_(rate(gates)).sum(0));
  const at::Tensor s = at::sigmoid(gate_part(ba, 0));
  const at::Tensor grad_b =
      at::mul(grads.beta, s).mul_(at::rsub(s, 1.0)).mul_(gates.beta_multiplier);
  out.ba = at::cat({grad_b, grad_a}, 1).to(ba.scalar_type());
  return out;
}

}  // namespace packtrain
