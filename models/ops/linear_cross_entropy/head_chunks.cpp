#include "models/ops/linear_cross_entropy/head_chunks.h"

#include <algorithm>

#include "framework/core/math.h"

namespace packtrain {
namespace {

constexpr std::int64_t kMaxLogitsOnGpu = std::int64_t{1} << 30;
constexpr std::int64_t kMaxLogitsOnCpu = std::int64_t{1} << 22;
constexpr std::int64_t kRowStep = 128;  // rows of a tile of the GEMMs
constexpr std::int64_t kGradientBytes = 4;

}  // namespace

std::int64_t logits_stride(std::int64_t vocab_size) {
  return round_up(vocab_size, kAlignedWords);
}

HeadChunks plan_head_chunks(const HeadSize& size, bool on_gpu) {
  const std::int64_t stride = logits_stride(size.vocab_size);
  const std::int64_t max_rows =
      std::max(kRowStep, (on_gpu ? kMaxLogitsOnGpu : kMaxLogitsOnCpu) / stride);
  const std::int64_t sum_bytes =
      size.narrow_gradient ? size.vocab_size * size.hidden_size * kGradientBytes : 0;
  const std::int64_t row_bytes = stride * size.element_bytes;
  HeadChunks chunks;
  if (stride > size.vocab_size) chunks.weight_bytes = row_bytes * size.hidden_size;
  if (size.num_rows <= max_rows + sum_bytes / row_bytes) {
    chunks.rows = size.num_rows;
  } else {
    const std::int64_t num_chunks = (size.num_rows + max_rows - 1) / max_rows;
    chunks.rows =
        round_up((size.num_rows + num_chunks - 1) / num_chunks, std::min(kRowStep, max_rows));
    chunks.gradient_bytes = sum_bytes;
  }
  chunks.logits_bytes = chunks.rows * row_bytes;
  return chunks;
}

}  // namespace packtrain
