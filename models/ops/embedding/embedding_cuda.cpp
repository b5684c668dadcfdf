#include "models/ops/embedding/embedding.h"

#include <ATen/ops/empty.h>

#include "models/ops/cuda/current_stream.h"
#include "models/ops/cuda/gradient_target.h"
#include "models/ops/cuda/side_stream.h"
#include "models/ops/embedding/embedding_launch.h"

namespace packtrain {
namespace {

struct SortedIds {
  at::Tensor ids;
  at::Tensor order;
  at::Tensor tokens;     // scratch of the sort
  at::Tensor temporary;  // scratch of the sort
};

SortedIds make_sorted_ids(const at::Tensor& ids, std::int64_t vocab_size) {
  const std::int64_t num_tokens = ids.size(0);
  const auto bytes = static_cast<std::int64_t>(token_sort_bytes(num_tokens, vocab_size));
  return {at::empty({num_tokens}, ids.options()), at::empty({num_tokens}, ids.options()),
          at::empty({num_tokens}, ids.options()),
          at::empty({bytes}, ids.options().dtype(at::kByte))};
}

void sort_ids(const at::Tensor& ids, std::int64_t vocab_size, SortedIds& sorted, void* stream) {
  sort_token_ids(ids.const_data_ptr<std::int32_t>(), ids.size(0), vocab_size,
                 sorted.ids.data_ptr<std::int32_t>(), sorted.tokens.data_ptr<std::int32_t>(),
                 sorted.order.data_ptr<std::int32_t>(), sorted.temporary.data_ptr(),
                 static_cast<std::size_t>(sorted.temporary.numel()), stream);
}

// Zeroes the rows of `grad` whose ids do not occur while the ids are sorted. The first is bound by
// memory and the second is not, so they overlap.
void zero_rows_and_sort(const at::Tensor& ids, const at::Tensor& grad, SortedIds& sorted) {
  const at::Tensor present = at::empty({grad.size(0)}, ids.options().dtype(at::kByte));
  SideStream side(ids);
  sort_ids(ids, grad.size(0), sorted, side.stream());
  zero_absent_rows(ids.const_data_ptr<std::int32_t>(), ids.size(0), grad.size(0),
                   grad.size(1) * grad.element_size(), present.data_ptr<std::uint8_t>(),
                   grad.data_ptr(), current_stream(ids));
  side.join();
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
  arguments.dtype = float_type_of(weight.value, "embedding");
  launch_embedding_forward(arguments, current_stream(y));
  return y;
}

void embedding_backward_cuda(const at::Tensor& grad_output, const at::Tensor& ids,
                             const Parameter& weight) {
  const at::Tensor grad = grad_output.contiguous();
  const GradientTarget target = gradient_target(&weight, "embedding");
  const at::Tensor tokens = ids.contiguous();
  const std::int64_t vocab_size = weight.value.size(0);
  SortedIds sorted = make_sorted_ids(tokens, vocab_size);
  if (target.accumulate) {
    sort_ids(tokens, vocab_size, sorted, current_stream(grad));
  } else {
    zero_rows_and_sort(tokens, weight.grad, sorted);
  }
  EmbeddingArguments arguments;
  arguments.ids = sorted.ids.const_data_ptr<std::int32_t>();
  arguments.order = sorted.order.const_data_ptr<std::int32_t>();
  arguments.rows = grad.const_data_ptr();
  arguments.output = target.grad;
  arguments.num_tokens = grad.size(0);
  arguments.hidden = grad.size(1);
  arguments.dtype = float_type_of(grad, "embedding");
  arguments.grad_dtype = target.dtype;
  arguments.accumulate = target.accumulate;
  const at::Tensor partials =
      at::empty({num_embedding_chunks(arguments.num_tokens), 2, arguments.hidden},
                grad.options().dtype(at::kFloat));
  arguments.partials = partials.data_ptr<float>();
  launch_embedding_backward(arguments, current_stream(grad));
}

}  // namespace packtrain
