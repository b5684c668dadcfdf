#include "models/ops/mamba2/ssd.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "framework/core/error.h"
#include "models/ops/delta_rule/delta_rule.h"
#include "models/ops/gradient.h"
#include "models/ops/mamba2/ssd_chunk.h"

namespace packtrain {
namespace {

bool has_shapes(const SsdInputs& in, const at::Tensor& skip) {
  if (in.x.dim() != 3 || in.b.dim() != 3 || in.b.sizes() != in.c.sizes()) return false;
  const std::int64_t rows = in.x.size(0), heads = in.x.size(1);
  const at::IntArrayRef scalars = in.steps.sizes();
  return in.b.size(0) == rows && in.b.size(1) > 0 && heads % in.b.size(1) == 0 &&
         scalars == at::IntArrayRef({rows, heads}) && in.g.sizes() == scalars &&
         skip.sizes() == at::IntArrayRef({heads});
}

void check_ssd(const SsdInputs& in, const at::Tensor& skip, const SsdOptions& options) {
  const auto& boundaries = options.boundaries;
  const bool covers = !boundaries.empty() && boundaries.front() == 0 &&
                      boundaries.back() == in.x.size(0) && std::ranges::is_sorted(boundaries);
  const bool has_types = in.x.scalar_type() == in.b.scalar_type() &&
                         in.x.scalar_type() == in.c.scalar_type() &&
                         in.steps.scalar_type() == at::kFloat && in.g.scalar_type() == at::kFloat &&
                         skip.scalar_type() == at::kFloat;
  if (covers && has_types && has_shapes(in, skip)) return;
  throw Error(ErrorCategory::kInternal,
              fmt::format("state space model: x [{}], b [{}], c [{}], steps [{}], decays [{}], a "
                          "skip weight [{}], their dtypes and boundaries up to the number of rows "
                          "do not fit",
                          fmt::join(in.x.sizes(), ", "), fmt::join(in.b.sizes(), ", "),
                          fmt::join(in.c.sizes(), ", "), fmt::join(in.steps.sizes(), ", "),
                          fmt::join(in.g.sizes(), ", "), fmt::join(skip.sizes(), ", ")));
}

struct ChunkRows {
  std::int64_t row;
  std::int64_t size;
};

std::vector<ChunkRows> chunks_of(std::int64_t begin, std::int64_t end) {
  std::vector<ChunkRows> chunks;
  for (std::int64_t row = begin; row < end; row += kDeltaRuleChunk) {
    chunks.push_back({row, std::min<std::int64_t>(kDeltaRuleChunk, end - row)});
  }
  return chunks;
}

at::Tensor empty_state(const SsdInputs& in) {
  return at::zeros({in.x.size(1), in.b.size(2), in.x.size(2)}, in.steps.options());
}

// [X, L, Y] to rows of [T, X, Y].
void write_rows(const at::Tensor& to, const ChunkRows& rows, const at::Tensor& from) {
  to.narrow(0, rows.row, rows.size).copy_(from.transpose(0, 1));
}

// D x, float32.
at::Tensor skipped(const SsdInputs& in, const at::Tensor& skip) {
  return at::mul(in.x.to(at::kFloat), skip.unsqueeze(1));
}

void backward_of_sequence(const SsdInputs& in, const std::vector<ChunkRows>& chunks,
                          const at::Tensor& grad_output, const SsdInputs& grads) {
  std::vector<at::Tensor> states = {empty_state(in)};
  for (const ChunkRows& rows : chunks) {
    states.push_back(SsdChunk(in, rows.row, rows.size).next_state(states.back()));
  }
  at::Tensor grad_state = empty_state(in);
  for (std::size_t i = chunks.size(); i-- > 0;) {
    const ChunkRows& rows = chunks[i];
    const at::Tensor grad =
        grad_output.narrow(0, rows.row, rows.size).to(at::kFloat).transpose(0, 1).contiguous();
    const SsdChunk::Gradients of_chunk =
        SsdChunk(in, rows.row, rows.size).backward(grad, states[i], grad_state);
    write_rows(grads.x, rows, of_chunk.x);
    write_rows(grads.b, rows, of_chunk.b);
    write_rows(grads.c, rows, of_chunk.c);
    write_rows(grads.steps, rows, of_chunk.steps);
    write_rows(grads.g, rows, of_chunk.g);
    grad_state = of_chunk.state;
  }
  // The first decay multiplies a state of zeros.
  if (!chunks.empty()) grads.g.select(0, chunks.front().row).zero_();
}

}  // namespace

at::Tensor ssd_forward(const SsdInputs& inputs, const Parameter& skip, const SsdOptions& options) {
  const at::Tensor weight = skip.value.to(at::kFloat);
  check_ssd(inputs, weight, options);
  if (inputs.x.is_cuda()) return ssd_forward_cuda(inputs, weight, options);
  const at::Tensor y = skipped(inputs, weight);
  for (std::size_t s = 0; s + 1 < options.boundaries.size(); ++s) {
    at::Tensor state = empty_state(inputs);
    for (const ChunkRows& rows : chunks_of(options.boundaries[s], options.boundaries[s + 1])) {
      const SsdChunk chunk(inputs, rows.row, rows.size);
      y.narrow(0, rows.row, rows.size).add_(chunk.output(state).transpose(0, 1));
      state = chunk.next_state(state);
    }
  }
  return y.to(inputs.x.scalar_type());
}

void ssd_backward(const at::Tensor& grad_output, const SsdInputs& inputs, const Parameter& skip,
                  const SsdOptions& options, const SsdInputs& grads) {
  const at::Tensor weight = skip.value.to(at::kFloat);
  check_ssd(inputs, weight, options);
  if (inputs.x.is_cuda()) {
    write_gradient(skip, ssd_backward_cuda(grad_output, inputs, weight, options, grads));
    return;
  }
  // grads.x may have less precision than the two sums that it has.
  SsdInputs wide = grads;
  wide.x = at::zeros(inputs.x.sizes(), inputs.steps.options());
  for (std::size_t s = 0; s + 1 < options.boundaries.size(); ++s) {
    backward_of_sequence(inputs, chunks_of(options.boundaries[s], options.boundaries[s + 1]),
                         grad_output, wide);
  }
  const at::Tensor grad = grad_output.to(at::kFloat);
  grads.x.copy_(wide.x.add_(at::mul(grad, weight.unsqueeze(1))));
  write_gradient(skip, at::mul(grad, inputs.x).sum(at::IntArrayRef{0, 2}));
}

}  // namespace packtrain
