#include "models/ops/attention/attention_bytes.h"

#include <algorithm>

#include "models/ops/attention/backends.h"
#include "models/ops/attention/chunks.h"
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

// Workspace of cuDNN 9.19's plans without the boundaries (tests/models/ops/attention_cudnn_test),
// in float32. Each token has dq with the row stride of qkv, and one number a query head. Each key
// that several query heads share has dk and dv of all query heads.
std::int64_t cudnn_workspace(const AttentionShape& shape, std::int64_t num_tokens,
                             std::int64_t num_keys) {
  const std::int64_t query = shape.num_heads * shape.head_dim;
  const std::int64_t key_value = 2 * shape.num_kv_heads * shape.head_dim;
  const bool is_grouped = shape.num_kv_heads < shape.num_heads;
  const std::int64_t of_keys = is_grouped ? 2 * query : 0;
  return (num_tokens * (query + key_value + shape.num_heads) + num_keys * of_keys) * kFloatBytes +
         kBoundaryBytes;
}

// dq in float32. Grouped queries add dk and dv of all query heads.
std::int64_t flash_workspace(const AttentionShape& shape, const AttentionLoad& load,
                             std::int64_t num_keys, std::int64_t element_bytes) {
  const std::int64_t rows = load.num_tokens + kFlashRowStep * load.num_sequences;
  const std::int64_t head = (shape.head_dim + kFlashHeadStep - 1) / kFlashHeadStep * kFlashHeadStep;
  const bool is_grouped = shape.num_kv_heads < shape.num_heads;
  const std::int64_t of_keys = is_grouped ? 2 * shape.num_heads * shape.head_dim : 0;
  return rows * shape.num_heads * (head + 1) * kFloatBytes + num_keys * of_keys * element_bytes;
}

// Bytes of keys and values.
struct KeyBytes {
  std::int64_t of_rows = 0;
  std::int64_t of_copies = 0;  // of expanded keys; 0 without prefixes
};

AttentionBytes cudnn_bytes(const AttentionShape& shape, const AttentionLoad& load,
                           std::int64_t query, const KeyBytes& keys) {
  const AttentionBucket bucket =
      attention_bucket(1, 1, std::max(load.num_tokens, load.max_tokens),
                       load.num_keys > 0 ? std::max(load.num_keys, load.max_keys) : 0);
  if (load.num_keys == 0) {
    // dq is a view of a tensor that has free space for dk and dv (cudnn/attention.cpp).
    return {query + 2 * keys.of_rows, cudnn_workspace(shape, bucket.num_tokens, bucket.num_tokens)};
  }
  return {query + keys.of_rows,
          2 * keys.of_copies + cudnn_workspace(shape, bucket.num_tokens, bucket.num_keys)};
}

AttentionBytes flash_bytes(const AttentionShape& shape, const AttentionLoad& load,
                           std::int64_t query, const KeyBytes& keys, std::int64_t element_bytes) {
  const std::int64_t num_keys = std::max(load.num_tokens, load.num_keys);
  const std::int64_t kernel = flash_workspace(shape, load, num_keys, element_bytes);
  if (load.num_keys == 0) return {query + keys.of_rows, kernel};
  // Copies of keys are freed before their gradients are summed into those of rows.
  const std::int64_t most = std::max(2 * keys.of_copies + kernel - keys.of_rows, keys.of_copies);
  return {query + keys.of_rows, most};
}

// With prefixes the plain formula sums gradients of keys in float32.
std::int64_t plain_bytes(const AttentionShape& shape, const AttentionLoad& load, bool on_gpu) {
  const std::int64_t sums = 2 * shape.num_kv_heads * shape.head_dim * kFloatBytes;
  return plain_workspace_bytes(shape, load.num_tokens, on_gpu) +
         (load.num_keys > 0 ? load.num_tokens * sums : 0);
}

}  // namespace

AttentionBytes attention_backward_bytes(const AttentionShape& shape, const AttentionLoad& load,
                                        at::DeviceType device, at::ScalarType dtype) {
  if (const std::int64_t chunk = shape.pattern.chunk; chunk > 0) {
    AttentionLoad of_chunks = load;
    of_chunks.num_sequences += load.num_tokens / chunk;
    return attention_backward_bytes(without_chunks(shape), of_chunks, device, dtype);
  }
  const auto element = static_cast<std::int64_t>(c10::elementSize(dtype));
  const std::int64_t query = load.num_tokens * shape.num_heads * shape.head_dim * element;
  const std::int64_t key_value = 2 * shape.num_kv_heads * shape.head_dim * element;
  const KeyBytes keys = {load.num_tokens * key_value, load.num_keys * key_value};
  const bool has_prefixes = load.num_keys > 0;
  switch (choose_attention_backend(shape, at::Device(device), dtype, has_prefixes)) {
    case AttentionBackend::kCudnn:
      return cudnn_bytes(shape, load, query, keys);
    case AttentionBackend::kFlash:
      return flash_bytes(shape, load, query, keys, element);
    case AttentionBackend::kWide:
    case AttentionBackend::kWideSmall:
      // Sums of dO O. With prefixes also copies of keys, and their gradients.
      return {query + keys.of_rows,
              load.num_tokens * shape.num_heads * kFloatBytes + 2 * keys.of_copies};
    case AttentionBackend::kPlain:
      return {query + keys.of_rows, plain_bytes(shape, load, device != at::kCPU)};
    default:
      return {query + keys.of_rows, 2 * keys.of_copies};
  }
}

}  // namespace packtrain
