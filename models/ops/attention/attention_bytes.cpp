#include "models/ops/attention/attention_bytes.h"

#include <algorithm>

#include "models/ops/attention/backends.h"
#include "models/ops/attention/cudnn_buckets.h"

namespace packtrain {
namespace {

constexpr std::int64_t kFloatBytes = 4;

}  // namespace

AttentionBytes attention_backward_bytes(const AttentionShape& shape, std::int64_t num_tokens,
                                        std::int64_t max_tokens, at::DeviceType device,
                                        at::ScalarType dtype) {
  const auto element = static_cast<std::int64_t>(c10::elementSize(dtype));
  const std::int64_t query = shape.num_heads * shape.head_dim;
  const std::int64_t key_value = 2 * shape.num_kv_heads * shape.head_dim;
  const std::int64_t gradients = num_tokens * (query + key_value) * element;
  switch (choose_attention_backend(shape, at::Device(device), dtype)) {
    case AttentionBackend::kCudnn: {
      // d q in float32, d k and d v of all query heads, and two float32 a head.
      const std::int64_t tokens =
          attention_bucket(1, 1, std::max(num_tokens, max_tokens)).num_tokens;
      const std::int64_t of_token =
          query * kFloatBytes + 2 * query * kFloatBytes + 2 * shape.num_heads * kFloatBytes;
      // d q lies among places for d k and d v (cudnn.cpp).
      return {gradients + num_tokens * key_value * element, tokens * of_token};
    }
    case AttentionBackend::kFlash:
      return {gradients, num_tokens * (query * kFloatBytes + 2 * query * element)};
    default:
      return {gradients, 0};
  }
}

}  // namespace packtrain
