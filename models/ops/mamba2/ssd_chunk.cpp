#include "models/ops/mamba2/ssd_chunk.h"

#include <ATen/ops/bmm.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/sum.h>

#include <limits>

namespace packtrain {
namespace {

// Rows of [T, X, Y] as float32 [X, L, Y].
at::Tensor rows_by_head(const at::Tensor& from, std::int64_t row, std::int64_t size) {
  return from.narrow(0, row, size).to(at::kFloat).transpose(0, 1).contiguous();
}

// exp(a_i - a_j) where j <= i. A later row has no part, so that no difference overflows.
at::Tensor ratios_of(const at::Tensor& sums) {
  const std::int64_t size = sums.size(1);
  const at::Tensor later = at::ones({size, size}, sums.options().dtype(at::kBool)).triu(1);
  return at::sub(sums.unsqueeze(2), sums.unsqueeze(1))
      .masked_fill_(later, -std::numeric_limits<float>::infinity())
      .exp_();
}

// Sums of later rows and of the row itself, [H, L].
at::Tensor sums_from(const at::Tensor& rows) {
  return rows.flip(at::IntArrayRef{1}).cumsum(1).flip(at::IntArrayRef{1});
}

}  // namespace

SsdChunk::SsdChunk(const SsdInputs& inputs, std::int64_t row, std::int64_t size)
    : num_groups_(inputs.b.size(1)),
      x_(rows_by_head(inputs.x, row, size)),
      steps_(inputs.steps.narrow(0, row, size).t().contiguous().unsqueeze(2)),
      inputs_(at::mul(x_, steps_)) {
  const at::Tensor sums = inputs.g.narrow(0, row, size).t().contiguous().cumsum(1);
  b_ = by_head(rows_by_head(inputs.b, row, size));
  c_ = by_head(rows_by_head(inputs.c, row, size));
  decay_ = at::exp(sums).unsqueeze(2);
  to_end_ = at::sub(sums.narrow(1, size - 1, 1), sums).exp_().unsqueeze(2);
  ratios_ = ratios_of(sums);
  products_ = at::bmm(c_, b_.transpose(1, 2)).mul_(ratios_);
}

at::Tensor SsdChunk::by_head(const at::Tensor& groups) const {
  const std::int64_t share = x_.size(0) / num_groups_;
  return groups.unsqueeze(1)
      .expand({num_groups_, share, groups.size(1), groups.size(2)})
      .reshape({x_.size(0), groups.size(1), groups.size(2)});
}

at::Tensor SsdChunk::by_group(const at::Tensor& heads) const {
  const std::int64_t share = heads.size(0) / num_groups_;
  return heads.view({num_groups_, share, heads.size(1), heads.size(2)}).sum(at::IntArrayRef{1});
}

at::Tensor SsdChunk::output(const at::Tensor& state) const {
  return at::bmm(products_, inputs_).add_(at::bmm(at::mul(c_, decay_), state));
}

at::Tensor SsdChunk::next_state(const at::Tensor& state) const {
  const at::Tensor last = decay_.narrow(1, decay_.size(1) - 1, 1);
  return at::bmm(at::mul(b_, to_end_).transpose(1, 2), inputs_).add_(at::mul(state, last));
}

SsdChunk::Gradients SsdChunk::backward(const at::Tensor& grad, const at::Tensor& state,
                                       const at::Tensor& grad_next) const {
  const std::int64_t last_row = decay_.size(1) - 1;
  const at::Tensor decayed = at::mul(c_, decay_);
  const at::Tensor ended = at::mul(b_, to_end_);
  const at::Tensor grad_inputs =
      at::bmm(products_.transpose(1, 2), grad).add_(at::bmm(ended, grad_next));
  const at::Tensor weights = at::bmm(grad, inputs_.transpose(1, 2)).mul_(ratios_);

  Gradients grads;
  grads.x = at::mul(grad_inputs, steps_);
  grads.steps = at::mul(grad_inputs, x_).sum(at::IntArrayRef{2});
  const at::Tensor grad_c = at::bmm(grad, state.transpose(1, 2)).mul_(decay_);
  grads.c = by_group(grad_c.add_(at::bmm(weights, b_)));
  const at::Tensor grad_b = at::bmm(inputs_, grad_next.transpose(1, 2)).mul_(to_end_);
  grads.b = by_group(grad_b.add_(at::bmm(weights.transpose(1, 2), c_)));
  const at::Tensor of_sums = at::mul(grad, output(state)).sum(at::IntArrayRef{2});
  of_sums.sub_(at::mul(grad_inputs, inputs_).sum(at::IntArrayRef{2}));
  of_sums.select(1, last_row).add_(at::mul(next_state(state), grad_next).sum({1, 2}));
  grads.g = sums_from(of_sums);
  grads.state = at::bmm(decayed.transpose(1, 2), grad)
                    .add_(at::mul(grad_next, decay_.narrow(1, last_row, 1)));
  return grads;
}

}  // namespace packtrain
