// Sums that ranks add up with the loss of a step. They are by adapter or by source of the data,
// then of the objective's statistics, then by expert.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "framework/data/token_store.h"
#include "framework/metrics/metrics.h"
#include "models/block/batch.h"
#include "models/layers/decoder_config.h"
#include "models/objectives/objective.h"

namespace packtrain {

class StepDetails {
 public:
  // The references must outlive the object. `objective`: null for one without statistics.
  StepDetails(const TokenStore& store, const DecoderConfig& decoder,
              std::shared_ptr<const Objective> objective = nullptr)
      : store_(store),
        decoder_(decoder),
        objective_(std::move(objective)),
        statistics_(objective_ == nullptr ? std::vector<std::string>() : objective_->statistics()),
        num_adapters_(decoder.adapter == nullptr ? 0 : std::ssize(decoder.adapter->several)) {}

  // The number of adapters that are trained together; 0 for one. Their losses are the first sums.
  std::int64_t num_adapters() const { return num_adapters_; }
  // True with several sources, of one adapter or none.
  bool by_source() const { return num_adapters_ == 0 && num_sources() > 1; }
  // The sums need the row losses of each batch.
  bool needs_row_losses() const { return by_source() || num_adapters_ > 0 || !statistics_.empty(); }
  std::int64_t size() const;  // number of sums; 0: the step has none
  // The tokens of each layer's experts in the sums: float32 [layers with experts * experts].
  at::Tensor expert_tokens(const at::Tensor& sums) const;
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
  std::shared_ptr<const Objective> objective_;
  std::vector<std::string> statistics_;  // its names
  std::int64_t num_adapters_;
};

}  // namespace packtrain
