#include "models/ops/linear_cross_entropy/linear_cross_entropy.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "models/ops/gradient.h"
#include "models/ops/linear_cross_entropy/cross_entropy_cuda.h"

namespace packtrain {
namespace {

std::int64_t rows_per_chunk(const at::Tensor& x, std::int64_t vocab_size) {
  const std::int64_t max_logits = std::int64_t{1} << (x.is_cuda() ? 29 : 22);
  return std::max<std::int64_t>(128, max_logits / vocab_size);
}

// Sums d weight over chunks: the first and only one straight into the gradient, several in float32.
class WeightGradient {
 public:
  WeightGradient(const Parameter& weight, bool single_chunk)
      : weight_(weight),
        direct_(single_chunk || weight.value.scalar_type() == at::kFloat),
        into_(weight) {
    if (weight.grad.defined() && !direct_) {
      sum_ = at::zeros(weight.value.sizes(), weight.value.options().dtype(at::kFloat));
    }
  }

  void add(const at::Tensor& grad_logits, const at::Tensor& x) {
    if (direct_) {
      write_gradient_mm(into_, grad_logits.t(), x);
      into_.accumulate = true;
    } else if (sum_.defined()) {
      sum_.add_(at::mm(grad_logits.t(), x));
    }
  }

  void finish() {
    if (sum_.defined()) {
      write_gradient(weight_, sum_);
    }
  }

 private:
  Parameter weight_;
  bool direct_;
  Parameter into_;  // weight_, adding from the second chunk on
  at::Tensor sum_;
};

struct Chunk {
  at::Tensor x;
  at::Tensor labels;   // int32 [rows]
  at::Tensor weights;  // [rows]
};

Chunk chunk_of(const at::Tensor& x, const CrossEntropyTargets& targets, std::int64_t begin,
               std::int64_t rows) {
  return {x.narrow(0, begin, rows), targets.labels.narrow(0, begin, rows),
          targets.weights.narrow(0, begin, rows)};
}

struct ChunkLoss {
  at::Tensor rows;           // float32 [rows]
  at::Tensor log_partition;  // float32 [rows, 1]
  at::Tensor wide;           // the logits in float32 (themselves when they are that)
};

ChunkLoss chunk_loss(const at::Tensor& logits, const Chunk& chunk) {
  const at::Tensor wide = logits.to(at::kFloat);
  const at::Tensor log_partition = at::logsumexp(wide, at::IntArrayRef{1}, /*keepdim=*/true);
  const at::Tensor labels = chunk.labels.to(at::kLong).unsqueeze(1);
  const at::Tensor rows = at::sub(log_partition, at::gather(wide, 1, labels)).squeeze(1);
  return {rows, log_partition, wide};
}

// Where one chunk's results go.
struct ChunkOutputs {
  at::Tensor loss;        // added to
  at::Tensor row_losses;  // or undefined
  at::Tensor grad_x;      // or undefined: no gradients
};

// Turns the logits into d logits, in place.
void logits_to_gradient(const at::Tensor& logits, const ChunkLoss& loss, const Chunk& chunk) {
  at::Tensor wide = loss.wide;
  const at::Tensor weights = chunk.weights.unsqueeze(1);
  wide.sub_(loss.log_partition).exp_().mul_(weights);
  wide.scatter_add_(1, chunk.labels.to(at::kLong).unsqueeze(1), weights.neg());
  if (!wide.is_same(logits)) {
    logits.copy_(wide);
  }
}

// The rows' losses; with `gradients` the logits become d logits.
at::Tensor cross_entropy(const at::Tensor& logits, const Chunk& chunk, bool gradients) {
  if (logits.is_cuda()) {
    return cross_entropy_cuda(logits, chunk.labels, chunk.weights, gradients);
  }
  const ChunkLoss loss = chunk_loss(logits, chunk);
  if (gradients) logits_to_gradient(logits, loss, chunk);
  return loss.rows;
}

void run_chunk(const Chunk& chunk, const at::Tensor& weight, const ChunkOutputs& outputs,
               WeightGradient& weight_gradient) {
  const at::Tensor logits = at::mm(chunk.x, weight.t());
  const at::Tensor rows = cross_entropy(logits, chunk, outputs.grad_x.defined());
  outputs.loss.add_(at::mul(rows, chunk.weights).sum());
  if (outputs.row_losses.defined()) {
    outputs.row_losses.copy_(rows);
  }
  if (outputs.grad_x.defined()) {
    at::Tensor grad_x = outputs.grad_x;
    at::mm_out(grad_x, logits, weight);
    weight_gradient.add(logits, chunk.x);
  }
}

at::Tensor rows_or_undefined(const at::Tensor& whole, std::int64_t begin, std::int64_t rows) {
  return whole.defined() ? whole.narrow(0, begin, rows) : whole;
}

}  // namespace

CrossEntropyOutput linear_cross_entropy(const at::Tensor& x, const Parameter& weight,
                                        const CrossEntropyTargets& targets, bool gradients) {
  const std::int64_t num_rows = x.size(0);
  CrossEntropyOutput output{at::zeros({}, x.options().dtype(at::kFloat)),
                            gradients ? at::empty_like(x) : at::Tensor()};
  if (num_rows == 0) {
    if (gradients) {
      write_zero_gradient(weight);
    }
    return output;
  }
  const std::int64_t step = std::min(num_rows, rows_per_chunk(x, weight.value.size(0)));
  WeightGradient weight_gradient(weight, step == num_rows);
  for (std::int64_t begin = 0; begin < num_rows; begin += step) {
    const std::int64_t rows = std::min(step, num_rows - begin);
    const ChunkOutputs outputs{output.loss, rows_or_undefined(targets.row_losses, begin, rows),
                               rows_or_undefined(output.grad_x, begin, rows)};
    run_chunk(chunk_of(x, targets, begin, rows), weight.value, outputs, weight_gradient);
  }
  if (gradients) {
    weight_gradient.finish();
  }
  return output;
}

}  // namespace packtrain
