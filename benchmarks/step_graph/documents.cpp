#include "benchmarks/step_graph/documents.h"

#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cmath>

#include "framework/core/random.h"

namespace packtrain {
namespace {

constexpr double kLogMean = 5.3;
constexpr double kLogDeviation = 0.9;
constexpr std::int64_t kShortest = 8;
constexpr std::int64_t kLongest = 4096;

at::Tensor on_gpu(const std::vector<std::int32_t>& values) {
  return at::tensor(values, at::TensorOptions(at::kInt)).to(at::kCUDA);
}

}  // namespace

std::vector<std::int32_t> document_lengths(std::int64_t num_tokens) {
  const CounterRandom random(1, "lengths");
  std::vector<std::int32_t> lengths;
  for (std::int64_t left = num_tokens; left > 0; left -= lengths.back()) {
    const double drawn = std::exp(kLogMean + kLogDeviation * random.normal(lengths.size()));
    const auto length = std::clamp(static_cast<std::int64_t>(drawn), kShortest, kLongest);
    lengths.push_back(static_cast<std::int32_t>(std::min(length, left)));
  }
  return lengths;
}

DeviceBatch pack_documents(const std::vector<std::int32_t>& lengths, std::int64_t vocab_size,
                           std::uint64_t seed) {
  const CounterRandom random(seed, "ids");
  std::vector<std::int32_t> ids, positions, rows, labels;
  DeviceBatch batch;
  batch.cu_seqlens_host = {0};
  for (const std::int32_t length : lengths) {
    for (std::int32_t i = 0; i < length; ++i) {
      const auto id = static_cast<std::int32_t>(
          random.below(ids.size(), static_cast<std::uint64_t>(vocab_size)));
      if (i > 0) {  // predicted from the token before it
        rows.push_back(static_cast<std::int32_t>(ids.size()) - 1);
        labels.push_back(id);
      }
      ids.push_back(id);
      positions.push_back(i);
    }
    batch.cu_seqlens_host.push_back(static_cast<std::int32_t>(ids.size()));
    batch.max_seqlen = std::max(batch.max_seqlen, length);
  }
  batch.input_ids = on_gpu(ids);
  batch.position_ids = on_gpu(positions);
  batch.cu_seqlens = on_gpu(batch.cu_seqlens_host);
  batch.loss_index = on_gpu(rows);
  batch.loss_labels = on_gpu(labels);
  batch.loss_weight =
      batch.loss_labels.to(at::kFloat).fill_(1.0 / static_cast<double>(rows.size()));
  return batch;
}

void overwrite(DeviceBatch& batch, const DeviceBatch& other) {
  for (const auto part :
       {&DeviceBatch::input_ids, &DeviceBatch::position_ids, &DeviceBatch::cu_seqlens,
        &DeviceBatch::loss_index, &DeviceBatch::loss_labels, &DeviceBatch::loss_weight}) {
    (batch.*part).copy_(other.*part);
  }
}

}  // namespace packtrain
