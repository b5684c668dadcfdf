#include "models/ops/attention/plain.h"

#include <ATen/Context.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <limits>

#include "models/ops/attention/heads.h"
#include "models/ops/attention/segments.h"

namespace packtrain {
namespace {

constexpr std::int64_t kScoresOnCpu = std::int64_t{1} << 21;  // scores of a block of rows
constexpr std::int64_t kScoresOnGpu = std::int64_t{1} << 26;
constexpr std::int64_t kBlocksAtOnce = 4;  // scores, their mask, weights, gradients

std::int64_t rows_at_once(const AttentionShape& shape, std::int64_t length, bool on_gpu) {
  const std::int64_t scores = on_gpu ? kScoresOnGpu : kScoresOnCpu;
  return std::clamp<std::int64_t>(scores / (shape.num_heads * length), 1, length);
}

// Allows TF32 in float32 products during its lifetime when the call has bfloat16 tensors. Their
// values are exact in TF32, and the softmax weights lose less precision than in the fused kernels.
class TensorCores {
 public:
  explicit TensorCores(const at::Tensor& numbers) : before_(at::globalContext().allowTF32CuBLAS()) {
    if (numbers.scalar_type() == at::kBFloat16) at::globalContext().setAllowTF32CuBLAS(true);
  }
  ~TensorCores() { at::globalContext().setAllowTF32CuBLAS(before_); }
  TensorCores(const TensorCores&) = delete;
  TensorCores& operator=(const TensorCores&) = delete;

 private:
  bool before_;
};

// The rows of x [T, ...] of a segment's queries, and of its keys in the order of positions.
at::Tensor query_rows(const at::Tensor& x, const AttentionSegment& segment) {
  return x.narrow(0, segment.rows.begin, segment.rows.size());
}
at::Tensor key_rows(const at::Tensor& x, const AttentionSegment& segment) {
  if (segment.is_sequence()) return query_rows(x, segment);
  std::vector<at::Tensor> parts;
  for (const RowRange& range : segment.prefix) {
    parts.push_back(x.narrow(0, range.begin, range.size()));
  }
  parts.push_back(query_rows(x, segment));
  return at::cat(parts);
}

// Heads of rows [L, heads, D] in float32. Queries are [kv heads, query heads a kv head, L, D], keys
// and values [kv heads, L, D]. Grouped queries then need no copies of their keys.
at::Tensor grouped(const at::Tensor& rows, const AttentionShape& shape) {
  return rows.transpose(0, 1)
      .reshape({shape.num_kv_heads, -1, rows.size(0), shape.head_dim})
      .to(at::kFloat);
}

// Converts back to rows [L, heads, D].
at::Tensor by_row(const at::Tensor& groups) {
  return groups.flatten(0, 1).transpose(0, 1);
}

struct GroupedHeads {
  at::Tensor query;  // [K, G, L, D]
  at::Tensor key;    // [K, L, D]
  at::Tensor value;
};

// Query rows [begin, begin + count) of a segment, and the range of keys that they attend to.
struct RowBlock {
  std::int64_t begin = 0;
  std::int64_t count = 0;
  std::int64_t position = 0;  // of the first query; keys are counted by position
  std::int64_t first_key = 0;
  std::int64_t num_keys = 0;
};

template <typename Body>
void for_each_block(const AttentionShape& shape, const AttentionSegment& segment, bool on_gpu,
                    const Body& body) {
  const std::int64_t length = segment.rows.size();
  const std::int64_t rows = rows_at_once(shape, segment.num_keys(), on_gpu);
  for (std::int64_t begin = 0; begin < length; begin += rows) {
    RowBlock block;
    block.begin = begin;
    block.count = std::min(rows, length - begin);
    block.position = segment.num_prefix() + begin;
    block.first_key = shape.pattern.first_key(block.position);
    block.num_keys = block.position + block.count - block.first_key;
    body(block);
  }
}

// The block's rows of x [K, G, L, ...] with groups and rows merged: [K, G count, ...].
at::Tensor rows_of(const at::Tensor& x, const RowBlock& block) {
  return x.narrow(2, block.begin, block.count).flatten(1, 2);
}
at::Tensor keys_of(const at::Tensor& x, const RowBlock& block) {
  return x.narrow(1, block.first_key, block.num_keys);
}

// True [count, keys] where a query does not attend to a key.
at::Tensor unseen_keys(const AttentionShape& shape, const RowBlock& block,
                       const at::TensorOptions& options) {
  const at::TensorOptions ints = options.dtype(at::kLong);
  const at::Tensor place =
      at::arange(block.position, block.position + block.count, ints).unsqueeze(1);
  const at::Tensor key = at::arange(block.first_key, block.first_key + block.num_keys, ints);
  const at::Tensor distance = at::sub(place, key);
  const at::Tensor later = distance.lt(0);
  const AttentionPattern& pattern = shape.pattern;
  return pattern.is_full() ? later : later.logical_or_(distance.ge(pattern.window));
}

// Scores after the cap and before the mask: [K, G count, keys].
at::Tensor scores_of(const GroupedHeads& in, const AttentionShape& shape, const RowBlock& block) {
  const at::Tensor keys = keys_of(in.key, block).transpose(1, 2);
  at::Tensor scores = at::bmm(rows_of(in.query, block), keys).mul_(attention_scale(shape));
  const double cap = shape.soft_cap;
  return cap > 0 ? scores.div_(cap).tanh_().mul_(cap) : scores;
}

// Applies the mask in place.
at::Tensor masked(const at::Tensor& scores, const AttentionShape& shape, const RowBlock& block) {
  const at::Tensor unseen = unseen_keys(shape, block, scores.options());
  scores.view({scores.size(0), -1, block.count, block.num_keys})
      .masked_fill_(unseen, -std::numeric_limits<double>::infinity());
  return scores;
}

GroupedHeads grouped_heads(const Heads& heads, const AttentionShape& shape,
                           const AttentionSegment& segment) {
  return {grouped(query_rows(heads.query, segment), shape),
          grouped(key_rows(heads.key, segment), shape).squeeze(1),
          grouped(key_rows(heads.value, segment), shape).squeeze(1)};
}

// y [K, G, L, D] and logsumexp [K, G, L].
struct GroupedOutput {
  at::Tensor y;
  at::Tensor logsumexp;
};

void forward_block(const GroupedHeads& in, const AttentionShape& shape, const RowBlock& block,
                   const GroupedOutput& out) {
  const at::Tensor scores = masked(scores_of(in, shape, block), shape, block);
  const at::Tensor sums = at::logsumexp(scores, at::IntArrayRef{-1}, /*keepdim=*/true);
  const at::Tensor y = at::bmm(scores.sub_(sums).exp_(), keys_of(in.value, block));
  const auto place = [&](const at::Tensor& all) { return all.narrow(2, block.begin, block.count); };
  place(out.y).copy_(y.view(place(out.y).sizes()));
  place(out.logsumexp).copy_(sums.view(place(out.logsumexp).sizes()));
}

// Gradients of one segment, float32.
struct SegmentGradients {
  at::Tensor query;  // [K, G, L, D]
  at::Tensor key;    // [K, L, D], sums
  at::Tensor value;
};

void backward_block(const GroupedHeads& in, const GroupedOutput& out, const at::Tensor& grad_y,
                    const AttentionShape& shape, const RowBlock& block, SegmentGradients& grad) {
  const at::Tensor grad_rows = rows_of(grad_y, block);
  const at::Tensor mean = at::mul(grad_rows, rows_of(out.y, block)).sum(-1, /*keepdim=*/true);
  const at::Tensor scores = scores_of(in, shape, block);
  at::Tensor slope;  // slope of the cap
  if (shape.soft_cap > 0) {
    slope = at::mul(scores, 1 / shape.soft_cap).square_().neg_().add_(1);
  }
  const at::Tensor weights =
      masked(scores, shape, block).sub_(rows_of(out.logsumexp, block).unsqueeze(-1)).exp_();
  keys_of(grad.value, block).add_(at::bmm(weights.transpose(1, 2), grad_rows));
  const at::Tensor values = keys_of(in.value, block).transpose(1, 2);
  const at::Tensor grad_scores = at::bmm(grad_rows, values).sub_(mean).mul_(weights);
  if (slope.defined()) grad_scores.mul_(slope);
  grad_scores.mul_(attention_scale(shape));
  const at::Tensor query = at::bmm(grad_scores, keys_of(in.key, block));
  const at::Tensor place = grad.query.narrow(2, block.begin, block.count);
  place.copy_(query.view(place.sizes()));
  keys_of(grad.key, block).add_(at::bmm(grad_scores.transpose(1, 2), rows_of(in.query, block)));
}

// Gradients of keys or values of a batch [T, kv heads, D]. With prefixes, several segments add to a
// row, in float32 and one after another.
class KeyGradients {
 public:
  KeyGradients(const at::Tensor& keys, bool has_prefixes)
      : dtype_(keys.scalar_type()),
        adds_(has_prefixes),
        sums_(adds_ ? at::zeros(keys.sizes(), keys.options().dtype(at::kFloat))
                    : at::empty(keys.sizes(), keys.options())) {}

  // `grad`: [kv heads, keys of the segment, D]
  void write(const AttentionSegment& segment, const at::Tensor& grad) const {
    const at::Tensor rows = grad.transpose(0, 1);
    if (!adds_) {
      query_rows(sums_, segment).copy_(rows);
      return;
    }
    std::int64_t begin = 0;
    for (const RowRange& range : segment.prefix) {
      sums_.narrow(0, range.begin, range.size()).add_(rows.narrow(0, begin, range.size()));
      begin += range.size();
    }
    query_rows(sums_, segment).add_(rows.narrow(0, begin, segment.rows.size()));
  }
  at::Tensor result() const { return sums_.to(dtype_); }

 private:
  at::ScalarType dtype_;
  bool adds_;
  at::Tensor sums_;
};

}  // namespace

AttentionOutput plain_forward(const at::Tensor& qkv, const AttentionShape& shape,
                              const DeviceBatch& batch) {
  const TensorCores tensor_cores(qkv);
  const Heads heads = split_heads(qkv, shape);
  const bool on_gpu = qkv.is_cuda();
  const at::Tensor y = at::empty({qkv.size(0), shape.num_heads, shape.head_dim}, qkv.options());
  const at::Tensor logsumexp =
      at::empty({qkv.size(0), shape.num_heads}, qkv.options().dtype(at::kFloat));
  for_each_segment(batch, !on_gpu, [&](auto /*index*/, const AttentionSegment& segment) {
    const GroupedHeads in = grouped_heads(heads, shape, segment);
    const GroupedOutput out = {at::empty(in.query.sizes(), in.query.options()),
                               at::empty(in.query.sizes().slice(0, 3), in.query.options())};
    for_each_block(shape, segment, on_gpu,
                   [&](const RowBlock& block) { forward_block(in, shape, block, out); });
    query_rows(y, segment).copy_(by_row(out.y));
    query_rows(logsumexp, segment).copy_(by_row(out.logsumexp));
  });
  return {y.view({qkv.size(0), shape.num_heads * shape.head_dim}), {logsumexp}};
}

HeadGradients plain_backward(const at::Tensor& grad_output, const at::Tensor& qkv,
                             const at::Tensor& y, const std::vector<at::Tensor>& saved,
                             const AttentionShape& shape, const DeviceBatch& batch) {
  const TensorCores tensor_cores(qkv);
  const Heads heads = split_heads(qkv, shape);
  const bool on_gpu = qkv.is_cuda();
  const bool has_prefixes = !batch.segments().are_sequences();
  const at::Tensor grad_query = at::empty(heads.query.sizes(), qkv.options());
  const KeyGradients grad_key(heads.key, has_prefixes);
  const KeyGradients grad_value(heads.value, has_prefixes);
  const at::Tensor logsumexp = saved[0].unsqueeze(2);
  AttentionShape one = shape;  // logsumexps have the layout of heads of one element
  one.head_dim = 1;
  const at::Tensor y_heads = y.view_as(heads.query);
  const at::Tensor grad_heads = grad_output.view_as(heads.query);
  const bool parallel = !on_gpu && !has_prefixes;
  for_each_segment(batch, parallel, [&](auto /*index*/, const AttentionSegment& segment) {
    const GroupedHeads in = grouped_heads(heads, shape, segment);
    const GroupedOutput out = {grouped(query_rows(y_heads, segment), shape),
                               grouped(query_rows(logsumexp, segment), one).squeeze(3)};
    const at::Tensor grad_y = grouped(query_rows(grad_heads, segment), shape);
    SegmentGradients sums = {at::empty(in.query.sizes(), in.query.options()),
                             at::zeros_like(in.key), at::zeros_like(in.value)};
    for_each_block(shape, segment, on_gpu, [&](const RowBlock& block) {
      backward_block(in, out, grad_y, shape, block, sums);
    });
    query_rows(grad_query, segment).copy_(by_row(sums.query));
    grad_key.write(segment, sums.key);
    grad_value.write(segment, sums.value);
  });
  return {grad_query, grad_key.result(), grad_value.result()};
}

std::int64_t plain_workspace_bytes(const AttentionShape& shape, std::int64_t max_length,
                                   bool on_gpu) {
  if (max_length == 0) return 0;
  constexpr std::int64_t kFloatBytes = 4;
  // q, o and their gradients; k, v and their gradients; logsumexps.
  const std::int64_t numbers =
      (4 * shape.num_heads + 4 * shape.num_kv_heads) * shape.head_dim + shape.num_heads;
  const std::int64_t scores =
      shape.num_heads * rows_at_once(shape, max_length, on_gpu) * max_length;
  return (max_length * numbers + kBlocksAtOnce * scores) * kFloatBytes;
}

}  // namespace packtrain
