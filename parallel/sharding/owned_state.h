// The state that a rank owns between steps: its shard of the weights and of the optimizer's state.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "framework/device/device.h"
#include "parallel/communicators/communicator.h"
#include "parallel/sharding/optimizer_state.h"
#include "parallel/sharding/owned_layout.h"
#include "parallel/sharding/shard_view.h"
#include "parallel/sharding/sharding_options.h"
#include "parallel/sharding/state_layout.h"
#include "parallel/sharding/unit_table.h"

namespace packtrain {

// State that this rank owns, trainable units one after another; [n], float32 unless noted. Gaps
// hold zeros.
struct FlatState {
  at::Device device = at::kCPU;  // of the weights, and of the rest unless it is in host memory
  bool is_on_host = false;       // `optimizer` and `master`: ShardingOptions::offload_state
  std::int64_t numel = 0;        // n
  // Undefined where it is in host memory and all trained weights are float32, and where the trained
  // weights are their own masters.
  at::Tensor master;
  std::vector<OptimizerTensor> optimizer;  // in the order of ShardingOptions::optimizer_state
  // As encoded, one tensor for each encoding (owned_layout.h), the frozen ones too: the sources of
  // gathers. Trainable float32 weights are the master itself, and so are those that are their own.
  // With the state in host memory float32 ones have no values in `master`.
  std::vector<at::Tensor> weights;
};

// A range of FlatState of one optimizer group, adapter and optimizer.
struct OptimizerRange {
  int unit = 0;
  std::int64_t begin = 0;
  std::int64_t numel = 0;
  OptimizerGroup group = OptimizerGroup::kDecay;
  std::int64_t first_element = 0;  // index in the model, the same at any number of ranks
  std::size_t weight_buffer = 0;   // index in FlatState::weights, and where in that tensor
  std::int64_t weight_begin = 0;
  int adapter = 0;    // ParameterSpec::adapter
  int scale = -1;     // of one weight with a scale: Segment::scale
  int optimizer = 0;  // ParameterSpec::optimizer
};

class OwnedState {
 public:
  // Collective over `gather`, which reads the weights.
  // Throws Error(kDevice) where the host has not enough memory for an offloaded state.
  OwnedState(const UnitTable& table, Device& device, Communicator& gather,
             const ShardingOptions& options);

  FlatState& flat() { return flat_; }
  const std::vector<OptimizerRange>& optimizer_ranges() const { return optimizer_ranges_; }
  std::vector<ShardView> shard_views() const;
  // The float32 master of consecutive elements that have one weight buffer: weights of float32, or
  // elements of FlatState::master.
  at::Tensor master(const OptimizerRange& range) const;
  // Views of the optimizer's state for elements of FlatState: what their parameters have of it.
  std::vector<OptimizerTensor> optimizer_state(std::int64_t begin, std::int64_t numel) const {
    return state_layout_.narrow(flat_.optimizer, begin, numel);
  }

  std::int64_t trainable_numel() const { return layout_.trainable_numel; }
  // The first element of a unit in FlatState.
  std::int64_t trainable_begin(int unit) const { return trainable_begin_.at(unit); }
  // The first element of a trainable part of a unit in FlatState.
  std::int64_t part_begin(int unit, std::size_t part) const {
    return layout_.parts.at(unit).at(part).state_begin;
  }
  // What the rank owns of a part of a unit: 1-D, as encoded.
  at::Tensor weights(int unit, std::size_t part) const;
  // Its part of one parameter: where it is, and 1-D, possibly empty.
  OwnedRange range(int unit, std::size_t part, const Segment& segment) const {
    return owned_range(table_.units[unit].parts[part].layout, segment, rank_);
  }
  at::Tensor weights(int unit, std::size_t part, const Segment& segment) const;
  // Writes the master's values to the trainable weights of other encodings. On the current stream.
  void encode_master();
  // All of a unit's state: 1-D tensors, some of them empty.
  std::vector<at::Tensor> of_unit(int unit) const;
  std::int64_t communication_bytes() const { return communication_bytes_; }

 private:
  std::vector<StateRange> place_units();
  void allocate_weights(Communicator& gather);
  void allocate_state(Device& device);
  // float32 or another type [numel], zeros, on the device or in host memory.
  at::Tensor make_state(Device& device, std::int64_t numel, at::ScalarType type);
  bool is_master(int unit, std::size_t part) const;
  at::Tensor master(int unit, std::size_t part) const;
  void add_views(int unit, std::size_t part, std::vector<ShardView>& views) const;

  const UnitTable& table_;
  int rank_;
  OwnedLayout layout_;
  std::vector<std::int64_t> trainable_begin_;  // [units] in flat_
  std::vector<OptimizerRange> optimizer_ranges_;
  StateLayout state_layout_;
  std::int64_t communication_bytes_ = 0;
  FlatState flat_;
  std::vector<HostBuffer> host_memory_;  // of the offloaded state
};

}  // namespace packtrain
