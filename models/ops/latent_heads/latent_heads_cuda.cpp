#include <ATen/ops/empty.h>

#include "models/ops/cuda/current_stream.h"
#include "models/ops/latent_heads/latent_heads.h"
#include "models/ops/latent_heads/latent_heads_launch.h"

namespace packtrain {
namespace {

LatentHeadsArguments latent_arguments(const at::Tensor& merged, const LatentHeads& parts,
                                      const LatentHeadShape& shape) {
  LatentHeadsArguments arguments;
  arguments.query = parts.query.data_ptr();
  arguments.key_value = parts.key_value.data_ptr();
  arguments.key_rope = parts.key_rope.data_ptr();
  arguments.merged = merged.data_ptr();
  arguments.num_rows = merged.size(0);
  arguments.num_heads = static_cast<int>(shape.num_heads);
  arguments.rotary_dim = static_cast<int>(shape.rotary_dim);
  arguments.unturned_dim = static_cast<int>(shape.unturned_dim);
  arguments.value_dim = static_cast<int>(shape.value_dim);
  arguments.dtype = float_type_of(merged, "latent heads");
  return arguments;
}

}  // namespace

at::Tensor merge_latent_heads_cuda(const LatentHeads& heads, const LatentHeadShape& shape) {
  const LatentHeads parts = {heads.query.contiguous(), heads.key_value.contiguous(),
                             heads.key_rope.contiguous()};
  at::Tensor merged = at::empty({parts.query.size(0), 3 * shape.num_heads, shape.head_dim()},
                                parts.query.options());
  launch_latent_heads(latent_arguments(merged, parts, shape), current_stream(merged));
  return merged;
}

LatentHeads merge_latent_heads_backward_cuda(const at::Tensor& grad, const LatentHeadShape& shape) {
  const at::Tensor merged = grad.contiguous();
  const std::int64_t rows = merged.size(0);
  const std::int64_t heads = shape.num_heads;
  const auto empty = [&](std::int64_t width) { return at::empty({rows, width}, merged.options()); };
  LatentHeads parts = {empty(heads * shape.head_dim()),
                       empty(heads * (shape.unturned_dim + shape.value_dim)),
                       empty(shape.rotary_dim)};
  LatentHeadsArguments arguments = latent_arguments(merged, parts, shape);
  arguments.backward = true;
  launch_latent_heads(arguments, current_stream(merged));
  return parts;
}

}  // namespace packtrain
