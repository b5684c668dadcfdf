// Batches in fixed memory for CUDA graphs. A batch is padded to one of a few sizes and copied to
// the memory of that size. One graph then serves all batches of the size.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <compare>
#include <cstdint>

#include "collators/packed_batch.h"
#include "framework/device/device.h"
#include "models/block/batch.h"

namespace packtrain {

struct BatchSize {
  std::int64_t num_rows = 0;
  std::int64_t num_supervised = 0;
  std::int64_t num_sequences = 0;
  std::int64_t max_length = 0;
  std::int64_t num_examples = 0;
  bool has_row_seeds = false;
  std::int64_t num_adapters = 0;  // that are trained together, or 0

  friend auto operator<=>(const BatchSize&, const BatchSize&) = default;
};

// The smallest static size for a batch with a label. It has as many rows. Supervised rows are
// rounded up to the bucket of their products (ops/matmul/token_bucket.h), at most to all rows.
// Sequences and the longest one are rounded up to the bucket of attention
// (ops/attention/cudnn_buckets.h). Examples equal sequences; when sequences hold several, they are
// rounded up to a power of two.
BatchSize padded_size(const PackedBatch& batch);

class StaticBatch {
 public:
  StaticBatch(const BatchSize& size, const Device& device);

  // Copies the batch to the device on the current stream, without waiting. Padding consists of
  // supervised rows with weight 0 and no label, and of empty sequences and examples at the end.
  // Loss and gradients do not change. padded_size(batch) must be this size.
  void load(const PackedBatch& batch);

  // Its memory never changes.
  DeviceBatch& batch() { return batch_; }

 private:
  enum Part {
    kIds,
    kPositions,
    kBoundaries,
    kLossIndex,
    kLabels,
    kWeights,
    kExamples,
    kRowSeeds,
    kAdapterRows,
    kAdapterLossRows,
    kNumParts
  };

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
