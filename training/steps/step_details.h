// Sums that ranks add up with the loss of a step: by adapter or by source of the data, then by
// expert.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "framework/data/token_store.h"
#include "framework/metrics/metrics.h"
#include "models/block/batch.h"
#include "models/layers/decoder_config.h"

namespace packtrain {

class StepDetails {
 public:
  // Both arguments must outlive the object.
  StepDetails(const TokenStore& store, const DecoderConfig& decoder)
      : store_(store),
        decoder_(decoder),
        num_adapters_(decoder.adapter == nullptr ? 0 : std::ssize(decoder.adapter->several)) {}

  // The number of adapters that are trained together; 0 for one. Their losses are the first sums.
  std::int64_t num_adapters() const { return num_adapters_; }
  // True with several sources, of one adapter or none.
  bool by_source() const { return num_adapters_ == 0 && num_sources() > 1; }
  // The sums need the row losses of each batch.
  bool needs_row_losses() const { return by_source() || num_adapters_ > 0; }
  std::int64_t size() const;  // number of sums; 0: the step has none
  // The sums over batches that were trained on, float32 [size()] on their device. Call it on the
  // compute stream, and only when there are sums.
  at::Tensor sum(std::span<const DeviceBatch> batches) const;
  // Writes the sums over all ranks into the step's record.
  void add_to(StepRecord& record, std::span<const double> sums) const;

 private:
  std::int64_t num_sources() const { return std::ssize(store_.info().sources); }
  std::int64_t num_loss_sums() const { return by_source() ? 2 * num_sources() : num_adapters_; }

  const TokenStore& store_;
  const DecoderConfig& decoder_;
  std::int64_t num_adapters_;
};

}  // namespace packtrain
