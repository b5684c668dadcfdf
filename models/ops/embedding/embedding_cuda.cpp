#include "models/ops/embedding/embedding_cuda.h"

#include <ATen/ops/empty.h>

#include "models/ops/cuda/current_stream.h"
#include "models/ops/cuda/gradient_target.h"
#include "models/ops/embedding/embedding_launch.h"

namespace packtrain {
namespace {

struct SortedIds {
  at::Tensor ids;
  at::Tensor order;
};

SortedIds sort_ids(const at::Tensor& ids, std::int64_t vocab_size) {
  const std::int64_t num_tokens = ids.size(0);
  const std::size_t bytes = token_sort_bytes(num_tokens, vocab_size);
  const at::Tensor temporary =
      at::empty({static_cast<std::int64_t>(bytes)}, ids.options().dtype(at::kByte));
  const at::Tensor tokens = at::empty({num_tokens}, ids.options());
  SortedIds sorted{at::empty({num_tokens}, ids.options()), at::empty({num_tokens}, ids.options())};
  sort_token_ids(ids.const_data_ptr<std::int32_t>(), num_tokens, vocab_size,
                 sorted.ids.data_ptr<std::int32_t>(), tokens.data_ptr<std::int32_t>(),
                 sorted.order.data_ptr<std::int32_t>(), temporary.data_ptr(), bytes,
                 current_stream(ids));
  return sorted;
}

}  // namespace

at::Tensor embedding_forward_cuda(const at::Tensor& ids, const Parameter& weight) {
  const at::Tensor tokens = ids.contiguous();
  const std::int64_t hidden = weight.value.size(1);
  at::Tensor y = at::empty({tokens.size(0), hidden}, weight.value.options());
  EmbeddingArguments arguments;
  arguments.ids = tokens.const_data_ptr<std::int32_t>();
  arguments.rows = weight.value.const_data_ptr();
  arguments.output = y.data_ptr();
  arguments.num_tokens = tokens.size(0);
  arguments.hidden = hidden;
  arguments.bfloat16 = is_bfloat16(weight.value, "embedding");
  launch_embedding_forward(arguments, current_stream(y));
  return y;
}

void embedding_backward_cuda(const at::Tensor& grad_output, const at::Tensor& ids,
                             const Parameter& weight) {
  const at::Tensor grad = grad_output.contiguous();
  const GradientTarget target = gradient_target(&weight, "embedding");
  const SortedIds sorted = sort_ids(ids.contiguous(), weight.value.size(0));
  EmbeddingArguments arguments;
  arguments.ids = sorted.ids.const_data_ptr<std::int32_t>();
  arguments.order = sorted.order.const_data_ptr<std::int32_t>();
  arguments.rows = grad.const_data_ptr();
  arguments.output = target.grad;
  arguments.num_tokens = grad.size(0);
  arguments.vocab_size = weight.value.size(0);
  arguments.hidden = grad.size(1);
  arguments.bfloat16 = is_bfloat16(grad, "embedding");
  arguments.grad_bfloat16 = target.bfloat16;
  arguments.accumulate = target.accumulate;
  const at::Tensor partials =
      at::empty({num_embedding_chunks(arguments.num_tokens), 2, arguments.hidden},
                grad.options().dtype(at::kFloat));
  arguments.partials = partials.data_ptr<float>();
  launch_embedding_backward(arguments, current_stream(grad));
}

}  // namespace packtrain
