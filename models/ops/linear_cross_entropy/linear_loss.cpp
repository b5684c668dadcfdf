#include "models/ops/linear_cross_entropy/linear_loss.h"

#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones.h>

#include <algorithm>
#include <vector>

#include "framework/core/math.h"
#include "models/ops/gradient.h"
#include "models/ops/linear/linear.h"
#include "models/ops/matmul/matmul.h"

namespace packtrain {
namespace {

// Ranges of the vocabulary for GEMMs that have words as rows or columns: first a multiple of
// kAlignedWords, then the rest. For odd sizes cuBLAS has only old kernels, which are several times
// slower.
struct WordRange {
  std::int64_t begin;
  std::int64_t count;

  at::Tensor columns(const at::Tensor& x) const { return x.narrow(1, begin, count); }
  at::Tensor rows(const at::Tensor& x) const { return x.narrow(0, begin, count); }
  at::Tensor rows_or_none(const at::Tensor& x) const { return x.defined() ? rows(x) : x; }
  Parameter rows(const Parameter& p) const {
    return {rows(p.value), rows_or_none(p.grad), p.accumulate};
  }
};

std::vector<WordRange> word_ranges(std::int64_t vocab_size) {
  const std::int64_t aligned = vocab_size / kAlignedWords * kAlignedWords;
  std::vector<WordRange> ranges;
  if (aligned > 0) ranges.push_back({0, aligned});
  if (aligned < vocab_size) ranges.push_back({aligned, vocab_size - aligned});
  return ranges;
}

void write_logits(const at::Tensor& logits, const at::Tensor& x, const at::Tensor& weight,
                  const at::Tensor& bias, const GemmTiming& timing) {
  for (const WordRange& words : word_ranges(weight.size(0))) {
    gemm_out(words.columns(logits), x, words.rows(weight).t(), {.bias = words.rows_or_none(bias)},
             timing);
  }
}

void add_update(const at::Tensor& logits, const at::Tensor& s, const at::Tensor& b,
                const GemmTiming& timing) {
  for (const WordRange& words : word_ranges(b.size(0))) {
    const at::Tensor columns = words.columns(logits);
    gemm_out(columns, s, words.rows(b).t(), {.addend = columns}, timing);
  }
}

// Pads the weight with rows of zeros to whole kAlignedWords. dx is one sum over all words,
// so it cannot be two GEMMs. The second one would be added to the rounded sum of the first
// (matmul.h). In each row the small contribution of the last words would then be rounded away.
at::Tensor aligned_weight(const at::Tensor& weight) {
  const std::int64_t more = round_up(weight.size(0), kAlignedWords) - weight.size(0);
  return more == 0 ? weight : at::constant_pad_nd(weight, {0, 0, 0, more});
}

// grad_logits is [rows, a multiple of kAlignedWords]. Elements beyond the vocabulary become zero.
void write_grad_x(const at::Tensor& grad_x, const at::Tensor& grad_logits, std::int64_t vocab_size,
                  const at::Tensor& aligned, const GemmTiming& timing) {
  const std::int64_t more = aligned.size(0) - vocab_size;
  if (more > 0) grad_logits.narrow(1, vocab_size, more).zero_();
  gemm_out(grad_x, grad_logits, aligned, {}, timing);
}

void add_grad_weight(const Parameter& weight, const at::Tensor& grad_logits, const at::Tensor& x,
                     const GemmTiming& timing) {
  for (const WordRange& words : word_ranges(weight.value.size(0))) {
    write_gradient_gemm(words.rows(weight), words.columns(grad_logits).t(), x, timing);
  }
}

// Sums a parameter's gradient over chunks. It uses the gradient itself when there is one chunk or
// the gradient is float32. Otherwise it uses a separate float32 sum.
class ChunkedGradient {
 public:
  ChunkedGradient(const Parameter& parameter, bool single_chunk)
      : parameter_(parameter), target_(parameter) {
    const at::Tensor& grad = parameter.grad;
    apart_ = grad.defined() && !single_chunk && grad.scalar_type() != at::kFloat;
    if (apart_) {
      target_.grad = at::empty(grad.sizes(), grad.options().dtype(at::kFloat));
      target_.accumulate = false;
    }
  }

  // `write` writes the gradient of one chunk to the parameter that it is given, or adds it.
  template <typename Write>
  void add(const Write& write) {
    write(target_);
    target_.accumulate = true;
  }

  void finish() {
    if (apart_) write_gradient(parameter_, target_.grad);
  }

 private:
  Parameter parameter_;
  Parameter target_;  // parameter_ or the separate sum; adds from the second chunk on
  bool apart_ = false;
};

std::int64_t chunk_rows(const at::Tensor& x, const Parameter& weight,
                        const LinearLossOptions& options) {
  if (options.chunk_rows > 0) return std::min(options.chunk_rows, x.size(0));
  const bool narrow =
      options.gradients && weight.grad.defined() && weight.grad.scalar_type() != at::kFloat;
  return plan_head_chunks({.num_rows = x.size(0),
                           .vocab_size = weight.value.size(0),
                           .hidden_size = x.size(1),
                           .element_bytes = static_cast<std::int64_t>(x.element_size()),
                           .narrow_gradient = narrow},
                          x.is_cuda())
      .rows;
}

// Computes the logits chunk by chunk in one buffer.
class Chunks {
 public:
  Chunks(const at::Tensor& x, const Parameter& weight, const Parameter& bias, std::int64_t rows,
         const LinearLossOptions& options)
      : x_(x),
        weight_(weight),
        bias_(bias),
        rows_(rows),
        options_(options),
        buffer_(at::empty({rows, logits_stride(weight.value.size(0))}, x.options())) {}

  bool is_single() const { return rows_ >= x_.size(0); }

  // visit(chunk without weights, rows of x, the chunk's logits with the padding of their rows)
  template <typename Visit>
  void for_each(const Visit& visit) const {
    for (std::int64_t begin = 0; begin < x_.size(0); begin += rows_) {
      const std::int64_t rows = std::min(rows_, x_.size(0) - begin);
      const at::Tensor part = x_.narrow(0, begin, rows);
      const at::Tensor wide_logits = buffer_.narrow(0, 0, rows);
      const at::Tensor logits = wide_logits.narrow(1, 0, weight_.value.size(0));
      write_logits(logits, part, weight_.value, bias_.value, options_.gemm_timing);
      if (const LogitsUpdate* update = options_.update) {
        add_update(logits, update->s.narrow(0, begin, rows), update->b->value,
                   options_.gemm_timing);
      }
      visit(LogitsChunk{logits, begin}, part, wide_logits);
    }
  }

 private:
  const at::Tensor& x_;
  const Parameter& weight_;
  const Parameter& bias_;
  std::int64_t rows_;
  const LinearLossOptions& options_;
  at::Tensor buffer_;
};

// The gradients of the update, chunk by chunk.
class UpdateGradients {
 public:
  // `update` may be null.
  UpdateGradients(const LogitsUpdate* update, bool single_chunk, const GemmTiming& timing)
      : update_(update),
        b_(update != nullptr ? aligned_weight(update->b->value) : at::Tensor()),
        gradient_(update != nullptr ? *update->b : Parameter{}, single_chunk),
        timing_(timing) {}

  // `wide_logits` has zeros beyond the vocabulary, as write_grad_x() leaves it.
  void add(const LogitsChunk& chunk, const at::Tensor& wide_logits) {
    if (update_ == nullptr) return;
    const std::int64_t rows = chunk.logits.size(0);
    gemm_out(update_->grad_s.narrow(0, chunk.begin, rows), wide_logits, b_, {}, timing_);
    const at::Tensor s = update_->s.narrow(0, chunk.begin, rows);
    gradient_.add([&](const Parameter& p) { add_grad_weight(p, chunk.logits, s, timing_); });
  }
  void finish() { gradient_.finish(); }

 private:
  const LogitsUpdate* update_;
  at::Tensor b_;
  ChunkedGradient gradient_;
  const GemmTiming& timing_;
};

void write_zero_gradients(const Parameter& weight, const Parameter* bias,
                          const LogitsUpdate* update) {
  write_zero_gradient(weight);
  if (bias != nullptr) write_zero_gradient(*bias);
  if (update != nullptr) write_zero_gradient(*update->b);
}

// Writes dx, dW, db and the gradients of the update.
class HeadGradients {
 public:
  HeadGradients(const at::Tensor& grad_x, const Parameter& weight, const Parameter& bias,
                bool single_chunk, const LinearLossOptions& options)
      : grad_x_(grad_x),
        vocab_size_(weight.value.size(0)),
        aligned_(aligned_weight(weight.value)),
        weight_(weight, single_chunk),
        bias_(bias, single_chunk),
        update_(options.update, single_chunk, options.gemm_timing),
        timing_(options.gemm_timing) {}

  // The chunk's logits are dz. `part` has its rows of x.
  void add(const LogitsChunk& chunk, const at::Tensor& part, const at::Tensor& wide_logits) {
    write_grad_x(grad_x_.narrow(0, chunk.begin, part.size(0)), wide_logits, vocab_size_, aligned_,
                 timing_);
    weight_.add([&](const Parameter& p) { add_grad_weight(p, chunk.logits, part, timing_); });
    bias_.add([&](const Parameter& p) { linear_backward_bias(chunk.logits, p); });
    update_.add(chunk, wide_logits);
  }
  void finish() {
    weight_.finish();
    bias_.finish();
    update_.finish();
  }

 private:
  const at::Tensor& grad_x_;
  std::int64_t vocab_size_;
  at::Tensor aligned_;
  ChunkedGradient weight_;
  ChunkedGradient bias_;
  UpdateGradients update_;
  const GemmTiming& timing_;
};

bool is_trained(const Parameter& weight, const Parameter& bias, const LogitsUpdate* update) {
  return weight.grad.defined() || bias.grad.defined() || update != nullptr;
}

}  // namespace

at::Tensor linear_loss(const at::Tensor& x, const Parameter& weight, const Parameter* bias,
                       const LinearLossOptions& options, const RowLosses& row_losses) {
  at::Tensor grad_x;
  if (options.gradients) grad_x = at::empty_like(x);
  if (x.size(0) == 0) {
    if (options.gradients) write_zero_gradients(weight, bias, options.update);
    return grad_x;
  }
  const Parameter bias_or_none = bias != nullptr ? *bias : Parameter{};
  const Chunks chunks(x, weight, bias_or_none, chunk_rows(x, weight, options), options);
  const auto visit_all = [&] {
    chunks.for_each(
        [&](const LogitsChunk& chunk, const at::Tensor&, const at::Tensor&) { row_losses(chunk); });
  };
  if (!options.gradients) {
    visit_all();
    return grad_x;
  }
  HeadGradients gradients(grad_x, weight, bias_or_none, chunks.is_single(), options);
  const auto differentiate = [&](LogitsChunk chunk, const at::Tensor& part,
                                 const at::Tensor& wide_logits, const at::Tensor& weights) {
    chunk.weights = weights.narrow(0, chunk.begin, part.size(0));
    row_losses(chunk);
    gradients.add(chunk, part, wide_logits);
  };
  const auto differentiate_all = [&](const at::Tensor& weights) {
    chunks.for_each([&](const LogitsChunk& chunk, const at::Tensor& part, const at::Tensor& wide) {
      differentiate(chunk, part, wide, weights);
    });
  };
  const RowWeights& weights = options.weights;
  if (weights.known.defined()) {
    differentiate_all(weights.known);
  } else if (!is_trained(weight, bias_or_none, options.update)) {
    differentiate_all(at::ones({x.size(0)}, x.options().dtype(at::kFloat)));
    grad_x.mul_(weights.from_losses().unsqueeze(1));
  } else if (chunks.is_single()) {
    chunks.for_each([&](const LogitsChunk& chunk, const at::Tensor& part, const at::Tensor& wide) {
      row_losses(chunk);
      differentiate(chunk, part, wide, weights.from_losses());
    });
  } else {
    visit_all();
    differentiate_all(weights.from_losses());
  }
  gradients.finish();
  return grad_x;
}

}  // namespace packtrain
