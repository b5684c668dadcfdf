#include "models/ops/linear_cross_entropy/sample_labels.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <cmath>
#include <limits>

#include "models/ops/linear_cross_entropy/label_noise.h"

namespace packtrain {
namespace {

float capped(float z, double soft_cap) {
  if (soft_cap == 0) return z;
  const auto cap = static_cast<float>(soft_cap);
  return cap * std::tanh(z / cap);
}

std::int32_t sample_label(const float* logits, std::int64_t vocab_size, std::int64_t row_seed,
                          double soft_cap) {
  const auto log = [](float x) { return std::log(x); };
  float best = -std::numeric_limits<float>::infinity();
  std::int64_t label = 0;
  RandomWords words{};
  for (std::int64_t v = 0; v < vocab_size; ++v) {
    const std::int64_t in_group = v % kLabelNoiseGroup;
    if (in_group == 0) words = label_noise(row_seed, v / kLabelNoiseGroup);
    const float noise = -std::log(exponential_noise(words.values[in_group], log));
    const float value = capped(logits[v], soft_cap) + noise;
    if (value > best) {
      best = value;
      label = v;
    }
  }
  return static_cast<std::int32_t>(label);
}

void sample_labels_cpu(const at::Tensor& logits, const at::Tensor& row_seeds,
                       const CrossEntropyOptions& options, const at::Tensor& labels) {
  const at::Tensor rows = logits.to(at::kFloat).contiguous();
  const auto* values = rows.const_data_ptr<float>();
  const auto* seeds = row_seeds.const_data_ptr<std::int64_t>();
  auto* out = labels.mutable_data_ptr<std::int32_t>();
  const std::int64_t vocab_size = rows.size(1);
  at::parallel_for(0, rows.size(0), /*grain_size=*/1, [&](auto first, auto last) {
    for (std::int64_t n = first; n < last; ++n) {
      out[n] = sample_label(values + n * vocab_size, vocab_size, seeds[n], options.soft_cap);
    }
  });
}

}  // namespace

at::Tensor sample_labels(const at::Tensor& logits, const at::Tensor& row_seeds,
                         const CrossEntropyOptions& options) {
  at::Tensor labels = at::empty({logits.size(0)}, logits.options().dtype(at::kInt));
  if (logits.size(0) == 0) return labels;
  const at::Tensor seeds = row_seeds.contiguous();
  if (logits.is_cuda()) {
    sample_labels_cuda(logits, seeds, options, labels);
  } else {
    sample_labels_cpu(logits, seeds, options, labels);
  }
  return labels;
}

}  // namespace packtrain
