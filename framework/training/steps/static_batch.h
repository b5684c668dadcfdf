// Batches of sizes that come again: a batch is padded to a size and copied to where all batches of
// that size lie, so that a CUDA graph made of one serves the others.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <compare>
#include <cstdint>

#include "collators/packed_batch.h"
#include "framework/device/device.h"
#include "models/batch.h"

namespace packtrain {

struct BatchSize {
  std::int64_t num_rows = 0;
  std::int64_t num_supervised = 0;
  std::int64_t num_sequences = 0;
  std::int64_t max_length = 0;
  std::int64_t num_examples = 0;

  friend auto operator<=>(const BatchSize&, const BatchSize&) = default;
};

// The smallest size for a batch with a label: as many rows; as many supervised rows as the bucket
// of its matrix products has (ops/matmul/token_bucket.h), or all; sequences and longest one of the
// bucket of its attention (ops/attention/cudnn_buckets.h); as many examples as sequences, or, of
// sequences with several, the next power of two.
BatchSize padded_size(const PackedBatch& batch);

class StaticBatch {
 public:
  StaticBatch(const BatchSize& size, const Device& device);

  // Copies the batch to the device, on the current stream and without waiting. Supervised rows are
  // filled up with rows without a label, of weight 0, sequences and examples with empty ones behind
  // the last: loss and gradients are the batch's own. padded_size(batch) must be this size.
  void load(const PackedBatch& batch);

  // Always in the same memory.
  const DeviceBatch& batch() const { return batch_; }

 private:
  enum Part { kIds, kPositions, kBoundaries, kLossIndex, kLabels, kWeights, kExamples, kNumParts };

  at::Tensor part(const at::Tensor& all, Part which) const;
  void load_real_rows(const PackedBatch& batch);

  BatchSize size_;
  bool on_gpu_;
  std::array<std::int64_t, kNumParts> numel_{};
  std::array<std::int64_t, kNumParts + 1> begin_{};
  at::Tensor memory_;  // int32; weights are float32 in the same bytes
  DeviceBatch batch_;
};

}  // namespace packtrain
