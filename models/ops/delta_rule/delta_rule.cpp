#include "models/ops/delta_rule/delta_rule.h"

#include <ATen/ops/cumsum.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "framework/core/error.h"
#include "framework/data/attention_segment.h"
#include "models/ops/delta_rule/delta_rule_chunk.h"

namespace packtrain {
namespace {

[[noreturn]] void fail(const std::string& fault) {
  throw Error(ErrorCategory::kInternal, "delta rule: " + fault);
}

void check(const DeltaRuleInputs& in, const DeltaRuleOptions& options) {
  const bool has_dims = in.q.dim() == 3 && in.v.dim() == 3 && in.q.size(1) > 0;
  const bool fits = has_dims && in.q.sizes() == in.k.sizes() && in.q.size(0) == in.v.size(0) &&
                    in.v.size(1) % in.q.size(1) == 0 && in.g.sizes() == in.beta.sizes() &&
                    in.g.sizes() == in.v.sizes().slice(0, 2);
  if (!fits) {
    fail(fmt::format("q [{}], k [{}], v [{}], g [{}] and beta [{}] do not fit",
                     fmt::join(in.q.sizes(), ", "), fmt::join(in.k.sizes(), ", "),
                     fmt::join(in.v.sizes(), ", "), fmt::join(in.g.sizes(), ", "),
                     fmt::join(in.beta.sizes(), ", ")));
  }
  const auto& boundaries = options.boundaries;
  const bool covers = !boundaries.empty() && boundaries.front() == 0 &&
                      boundaries.back() == in.v.size(0) && std::ranges::is_sorted(boundaries);
  if (!covers) fail("its boundaries do not rise from 0 to the number of rows");
}

// The chunks of all sequences, in the order of rows.
std::vector<RowRange> chunks_of(const RowRange& sequence) {
  std::vector<RowRange> chunks;
  for (std::int64_t begin = sequence.begin; begin < sequence.end; begin += kDeltaRuleChunk) {
    chunks.push_back({begin, std::min(begin + kDeltaRuleChunk, sequence.end)});
  }
  return chunks;
}

// Rows of [T, heads, width] as float32 [heads, rows, width].
at::Tensor take(const at::Tensor& x, const RowRange& rows) {
  return x.narrow(0, rows.begin, rows.size()).to(at::kFloat).transpose(0, 1).contiguous();
}

void put(const at::Tensor& values, const at::Tensor& x, const RowRange& rows) {
  x.narrow(0, rows.begin, rows.size()).copy_(values.transpose(0, 1));
}

DeltaRuleChunk chunk_of(const DeltaRuleInputs& in, const RowRange& rows, double scale) {
  const std::int64_t group = in.v.size(1) / in.q.size(1);
  return {at::mul(take(in.q, rows), scale).repeat_interleave(group, 0),
          take(in.k, rows).repeat_interleave(group, 0), take(in.v, rows),
          at::cumsum(take(in.g.unsqueeze(2), rows), 1), take(in.beta.unsqueeze(2), rows)};
}

at::Tensor first_state(const DeltaRuleInputs& in) {
  return at::zeros({in.v.size(1), in.k.size(2), in.v.size(2)}, in.v.options().dtype(at::kFloat));
}

// Adds the heads that read one head of queries and keys.
at::Tensor sum_of_groups(const at::Tensor& grad, std::int64_t num_heads) {
  return grad.view({num_heads, -1, grad.size(1), grad.size(2)}).sum(1);
}

void put_gradients(const DeltaRuleChunk& grads, const RowRange& rows, double scale,
                   const DeltaRuleInputs& out) {
  const std::int64_t num_heads = out.q.size(1);
  put(sum_of_groups(grads.q, num_heads).mul_(scale), out.q, rows);
  put(sum_of_groups(grads.k, num_heads), out.k, rows);
  put(grads.v, out.v, rows);
  put(grads.sum.flip(1).cumsum(1).flip(1), out.g.unsqueeze(2), rows);  // g is in all later sums
  put(grads.beta, out.beta.unsqueeze(2), rows);
}

void sequence_backward(const at::Tensor& grad_output, const DeltaRuleInputs& in,
                       const RowRange& sequence, double scale, const DeltaRuleInputs& out) {
  const std::vector<RowRange> chunks = chunks_of(sequence);
  std::vector<at::Tensor> states = {first_state(in)};  // before each chunk
  for (std::size_t c = 0; c + 1 < chunks.size(); ++c) {
    states.push_back(delta_rule_step(chunk_of(in, chunks[c], scale), states.back()).state);
  }
  at::Tensor grad_state = at::zeros_like(states.front());
  for (std::size_t c = chunks.size(); c-- > 0;) {
    const DeltaRuleChunkGradients grads = delta_rule_step_backward(
        chunk_of(in, chunks[c], scale), states[c], {take(grad_output, chunks[c]), grad_state});
    put_gradients(grads.inputs, chunks[c], scale, out);
    grad_state = grads.state;
  }
}

}  // namespace

at::Tensor delta_rule_forward(const DeltaRuleInputs& inputs, const DeltaRuleOptions& options) {
  check(inputs, options);
  if (inputs.v.is_cuda()) return delta_rule_forward_cuda(inputs, options);
  const at::Tensor output = at::empty_like(inputs.v, at::MemoryFormat::Contiguous);
  for (std::size_t s = 0; s + 1 < options.boundaries.size(); ++s) {
    at::Tensor state = first_state(inputs);
    for (const RowRange& rows : chunks_of({options.boundaries[s], options.boundaries[s + 1]})) {
      const DeltaRuleStep step = delta_rule_step(chunk_of(inputs, rows, options.scale), state);
      put(step.output, output, rows);
      state = step.state;
    }
  }
  return output;
}

DeltaRuleInputs delta_rule_backward(const at::Tensor& grad_output, const DeltaRuleInputs& inputs,
                                    const DeltaRuleOptions& options) {
  check(inputs, options);
  if (inputs.v.is_cuda()) return delta_rule_backward_cuda(grad_output, inputs, options);
  const auto like = [](const at::Tensor& x) {
    return at::empty_like(x, at::MemoryFormat::Contiguous);
  };
  const DeltaRuleInputs grads{like(inputs.q), like(inputs.k), like(inputs.v), like(inputs.g),
                              like(inputs.beta)};
  for (std::size_t s = 0; s + 1 < options.boundaries.size(); ++s) {
    sequence_backward(grad_output, inputs, {options.boundaries[s], options.boundaries[s + 1]},
                      options.scale, grads);
  }
  return grads;
}

}  // namespace packtrain
