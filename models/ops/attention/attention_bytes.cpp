#include "models/ops/attention/attention_bytes.h"

#include <algorithm>

#include "models/ops/attention/backends.h"
#include "models/ops/attention/cudnn/buckets.h"
#include "models/ops/attention/plain.h"

namespace packtrain {
namespace {

constexpr std::int64_t kFloatBytes = 4;
constexpr std::int64_t kBoundaryBytes = std::int64_t{1} << 20;  // 448 bytes a sequence
// FlashAttention-2 of libtorch (flash_api.cpp, mha_varlen_bwd) rounds head sizes up to
// kFlashHeadStep. It adds up to kFlashRowStep rows for each sequence.
constexpr std::int64_t kFlashHeadStep = 32;
constexpr std::int64_t kFlashRowStep = 128;

// Workspace of cuDNN 9.19's plans without the boundaries (tests/models/ops/attention_cudnn_test):
// dq, dk and dv of all query heads in float32, and one float32 a query head. Grouped queries add dk
// and dv of the key heads.
std::int64_t cudnn_workspace(const AttentionShape& shape, std::int64_t num_tokens) {
  const std::int64_t query = shape.num_heads * shape.head_dim;
  const bool is_grouped = shape.num_kv_heads < shape.num_heads;
  const std::int64_t grouped = is_grouped ? 2 * shape.num_kv_heads * shape.head_dim : 0;
  return num_tokens * (3 * query + grouped + shape.num_heads) * kFloatBytes + kBoundaryBytes;
}

// dq in float32. Grouped queries add dk and dv of all query heads.
std::int64_t flash_workspace(const AttentionShape& shape, const AttentionLoad& load,
                             std::int64_t element_bytes) {
  const std::int64_t rows = load.num_tokens + kFlashRowStep * load.num_sequences;
  const std::int64_t head = (shape.head_dim + kFlashHeadStep - 1) / kFlashHeadStep * kFlashHeadStep;
  const bool is_grouped = shape.num_kv_heads < shape.num_heads;
  const std::int64_t expanded = is_grouped ? 2 * shape.num_heads * shape.head_dim : 0;
  return rows * shape.num_heads * (head + 1) * kFloatBytes +
         load.num_tokens * expanded * element_bytes;
}

}  // namespace

AttentionBytes attention_backward_bytes(const AttentionShape& shape, const AttentionLoad& load,
                                        at::DeviceType device, at::ScalarType dtype) {
  const auto element = static_cast<std::int64_t>(c10::elementSize(dtype));
  const std::int64_t query = shape.num_heads * shape.head_dim;
  const std::int64_t key_value = 2 * shape.num_kv_heads * shape.head_dim;
  const std::int64_t gradients = load.num_tokens * (query + key_value) * element;
  switch (choose_attention_backend(shape, at::Device(device), dtype)) {
    case AttentionBackend::kCudnn: {
      const std::int64_t tokens = std::max(load.num_tokens, load.max_tokens);
      // dq is a view of a tensor that has free space for dk and dv (cudnn.cpp).
      return {gradients + load.num_tokens * key_value * element,
              cudnn_workspace(shape, attention_bucket(1, 1, tokens).num_tokens)};
    }
    case AttentionBackend::kFlash:
      return {gradients, flash_workspace(shape, load, element)};
    case AttentionBackend::kPlain:
      return {gradients, plain_workspace_bytes(shape, load.num_tokens, device != at::kCPU)};
    default:
      return {gradients, 0};
  }
}

}  // namespace packtrain
