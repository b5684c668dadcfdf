#include "models/ops/attention/attention.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include "models/ops/attention/backends.h"
#include "models/ops/attention/chunks.h"
#include "models/ops/attention/cudnn/attention.h"
#include "models/ops/attention/flash.h"
#include "models/ops/attention/per_sequence.h"
#include "models/ops/attention/plain.h"
#include "models/ops/attention/segments.h"
#include "models/ops/attention/sinks.h"
#include "models/ops/attention/wide/attention.h"
#include "models/ops/gradient.h"

namespace packtrain {
namespace {

AttentionBackend backend_for(const at::Tensor& qkv, const AttentionShape& shape,
                             const DeviceBatch& batch) {
  const bool has_prefixes = !batch.segments().are_sequences();
  return choose_attention_backend(shape, qkv.device(), qkv.scalar_type(), has_prefixes);
}

AttentionOutput forward_of(AttentionBackend backend, const at::Tensor& qkv,
                           const AttentionShape& shape, DeviceBatch& batch,
                           const OperatorOptions& options) {
  switch (backend) {
    case AttentionBackend::kCudnn:
      return cudnn_forward(qkv, shape, batch, options);
    case AttentionBackend::kFlash:
      return flash_forward(qkv, shape, batch);
    case AttentionBackend::kPlain:
      return plain_forward(qkv, shape, batch);
    case AttentionBackend::kWide:
    case AttentionBackend::kWideSmall:
      return wide_forward(backend, qkv, shape, batch);
    default:
      return per_sequence_forward(qkv, shape, batch);
  }
}

// Converts [1, H, at least L], the layout of libtorch's kernels for one sequence, to [L, H].
at::Tensor of_sequence(const at::Tensor& logsumexp, std::int64_t length) {
  return logsumexp.squeeze(0).narrow(1, 0, length).transpose(0, 1);
}

// float32 [T, H]. A view when the backend has all sequences in one tensor.
at::Tensor logsumexps_by_token(AttentionBackend backend, const std::vector<at::Tensor>& saved,
                               DeviceBatch& batch) {
  if (backend == AttentionBackend::kFlash) return saved[0].transpose(0, 1);
  if (backend != AttentionBackend::kReference) return saved[0];
  std::vector<at::Tensor> sequences;
  for_each_sequence(batch, /*parallel=*/false, [&](auto index, const KernelSequence& rows) {
    const at::Tensor& logsumexp = saved[static_cast<std::size_t>(index)];
    sequences.push_back(of_sequence(logsumexp, rows.queries.size()));
  });
  return sequences.empty() ? at::Tensor() : at::cat(sequences);
}

void add_sinks(AttentionBackend backend, const AttentionOutput& output, const AttentionShape& shape,
               DeviceBatch& batch, const at::Tensor& sinks) {
  const at::Tensor y = output.y.view({output.y.size(0), shape.num_heads, shape.head_dim});
  if (backend != AttentionBackend::kReference) {
    return add_sinks_(y, logsumexps_by_token(backend, output.saved, batch), sinks);
  }
  for_each_sequence(batch, y.is_cpu(), [&](auto index, const KernelSequence& rows) {
    const at::Tensor& sums = output.saved[static_cast<std::size_t>(index)];
    const std::int64_t length = rows.queries.size();
    add_sinks_(y.narrow(0, rows.queries.begin, length), of_sequence(sums, length), sinks);
  });
}

}  // namespace

AttentionOutput attention_forward(const at::Tensor& qkv, const AttentionShape& shape,
                                  DeviceBatch& batch, const Parameter* sinks,
                                  const OperatorOptions& options) {
  if (shape.pattern.chunk > 0) {
    return attention_forward(qkv, without_chunks(shape), chunks_of(batch, shape.pattern.chunk),
                             sinks, options);
  }
  const AttentionBackend backend = backend_for(qkv, shape, batch);
  AttentionOutput output = forward_of(backend, qkv, shape, batch, options);
  if (sinks != nullptr) add_sinks(backend, output, shape, batch, sinks->value);
  return output;
}

HeadGradients attention_backward(const at::Tensor& grad_output, const at::Tensor& qkv,
                                 const at::Tensor& y, const std::vector<at::Tensor>& saved,
                                 const AttentionShape& shape, DeviceBatch& batch,
                                 const Parameter* sinks, const OperatorOptions& options) {
  if (shape.pattern.chunk > 0) {
    return attention_backward(grad_output, qkv, y, saved, without_chunks(shape),
                              chunks_of(batch, shape.pattern.chunk), sinks, options);
  }
  const AttentionBackend backend = backend_for(qkv, shape, batch);
  if (sinks != nullptr && sinks->grad.defined()) {
    const auto by_head = [&](const at::Tensor& rows) {
      return rows.view({rows.size(0), shape.num_heads, shape.head_dim});
    };
    write_gradient(*sinks,
                   sinks_gradient(by_head(grad_output), by_head(y),
                                  logsumexps_by_token(backend, saved, batch), sinks->value));
  }
  switch (backend) {
    case AttentionBackend::kCudnn:
      return cudnn_backward(grad_output, qkv, y, saved, shape, batch, options);
    case AttentionBackend::kFlash:
      return flash_backward(grad_output, qkv, y, saved, shape, batch);
    case AttentionBackend::kPlain:
      return plain_backward(grad_output, qkv, y, saved, shape, batch);
    case AttentionBackend::kWide:
    case AttentionBackend::kWideSmall:
      return wide_backward(backend, grad_output, qkv, y, saved, shape, batch);
    default:
      return per_sequence_backward(grad_output, qkv, y, saved, shape, batch);
  }
}

}  // namespace packtrain
