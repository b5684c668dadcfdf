// The state that a rank owns between steps: its shard of the weights and of the optimizer's state.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "parallel/communicators/communicator.h"
#include "parallel/sharding/optimizer_state.h"
#include "parallel/sharding/shard_view.h"
#include "parallel/sharding/sharding_options.h"
#include "parallel/sharding/unit_table.h"

namespace packtrain {

// State that this rank owns, trainable units one after another; [n], float32 unless noted. Gaps
// hold zeros.
struct FlatState {
  at::Tensor master;
  std::vector<OptimizerTensor> optimizer;  // in the order of ShardingOptions::optimizer_state
  // Compute dtype [n]: the source of gathers; the master itself when that is float32.
  at::Tensor weight;
};

// A range of FlatState of one optimizer group.
struct OptimizerRange {
  int unit = 0;
  std::int64_t begin = 0;
  std::int64_t numel = 0;
  OptimizerGroup group = OptimizerGroup::kDecay;
  std::int64_t first_element = 0;  // index in the model, the same at any number of ranks
};

class OwnedState {
 public:
  // Collective over `gather`, which reads the weights.
  OwnedState(const UnitTable& table, at::Device device, Communicator& gather,
             const ShardingOptions& options);

  FlatState& flat() { return flat_; }
  const std::vector<OptimizerRange>& optimizer_ranges() const { return optimizer_ranges_; }
  std::vector<ShardView> shard_views() const;

  std::int64_t trainable_numel() const { return trainable_numel_; }
  // The first element of a unit in FlatState.
  std::int64_t trainable_begin(int unit) const { return trainable_begin_.at(unit); }
  // The rank's part of a unit: 1-D, compute dtype.
  at::Tensor weights(int unit, bool trainable) const;
  // All of a unit's state: 1-D tensors, some of them empty.
  std::vector<at::Tensor> of_unit(int unit) const;
  std::int64_t communication_bytes() const { return communication_bytes_; }

 private:
  void place_units();
  // The state of trainable elements [begin, begin + numel) of this rank, as views.
  std::vector<OptimizerTensor> optimizer_part(std::int64_t begin, std::int64_t numel) const;

  const UnitTable& table_;
  std::vector<OptimizerStateSpec> optimizer_state_;
  int rank_;
  std::vector<std::int64_t> trainable_begin_;  // [units] in flat_
  std::vector<std::int64_t> frozen_begin_;     // [units] in frozen_
  std::int64_t trainable_numel_ = 0;
  std::int64_t frozen_numel_ = 0;
  std::vector<OptimizerRange> optimizer_ranges_;
  std::int64_t communication_bytes_ = 0;
  FlatState flat_;
  at::Tensor frozen_;  // compute dtype: owned parts of frozen parameters
};

}  // namespace packtrain
