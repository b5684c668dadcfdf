// All memory of a sharded model on one rank, allocated once: shards, weight slots and gradients. It
// also makes the views that blocks, optimizer and checkpoint use.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "framework/device/device.h"
#include "parallel/communicators/communicator.h"
#include "parallel/sharding/arena.h"
#include "parallel/sharding/optimizer_state.h"
#include "parallel/sharding/schedule.h"
#include "parallel/sharding/shard_view.h"

namespace packtrain {

struct ShardingOptions {
  int zero_stage = 3;  // as in SlotOptions
  int gather_slots = 3;
  bool resident_embeddings = true;
  at::ScalarType compute = at::kFloat;  // dtype of weights, activations and their gradients
  at::ScalarType reduce = at::kFloat;   // dtype of the gradients that blocks write and ranks sum
  // The optimizer declares it. Empty: no state.
  std::vector<OptimizerStateSpec> optimizer_state = {};
  bool poison_slots = false;   // fill weight slots with NaN when released
  bool self_test = false;      // test all slots with known values first
  bool check_gathers = false;  // compare checksums of gathered weights after each pass
};

// State that this rank owns, trainable units one after another; [n], float32 unless noted. Gaps
// hold zeros.
struct FlatState {
  at::Tensor master;
  std::vector<OptimizerTensor> optimizer;  // in the order of ShardingOptions::optimizer_state
  // Compute dtype [n]: the source of gathers; the master itself when that is float32.
  at::Tensor weight;
};

// A range of FlatState with one weight-decay flag.
struct OptimizerRange {
  int unit = 0;
  std::int64_t begin = 0;
  std::int64_t numel = 0;
  bool decay = true;
  std::int64_t first_element = 0;  // index in the model, the same at any number of ranks
};

class ShardedStorage {
 public:
  ShardedStorage(const UnitTable& table, const SlotTable& slots, const Device& device,
                 Communicator& gather, Communicator& reduce, const ShardingOptions& options);

  FlatState& state() { return state_; }
  const std::vector<OptimizerRange>& optimizer_ranges() const { return optimizer_ranges_; }
  std::vector<ShardView> shard_views() const;

  // The rank's part of a unit, and the destination of its gather: 1-D, compute dtype.
  at::Tensor owned_weights(int unit, bool trainable) const;
  at::Tensor gathered_weights(int unit, bool trainable) const;
  // All state of a unit that this rank owns between steps: 1-D tensors, some of them empty.
  std::vector<at::Tensor> owned_state(int unit) const;
  at::Tensor weight_slot(int slot) const { return weight_slots_.at(slot); }

  // Call it before every training step, on the compute stream. It selects the dtype of the
  // gradient's sum: float32 with several micro-batches, else the reduce dtype. One rank then
  // allocates more memory if needed; several ranks have it from the start.
  void begin_step(bool several_micro_batches);
  const at::Tensor& gradient() const { return gradient_; }  // 1-D [n], in the layout of FlatState
  at::Tensor gradient_shard(int unit) const;                // 1-D view of gradient()
  // The memory that blocks write: 1-D, the whole unit's, reduce dtype. In place it is
  // gradient_shard.
  at::Tensor gradient(int unit, int grad_slot) const;
  at::Tensor reduce_output(int unit) const;  // 1-D, reduce dtype

  // A block's parameters as views, created once for each gradient slot (-1: no gradients).
  const std::vector<Parameter>& parameters(int block, int grad_slot, bool accumulate);
  std::int64_t communication_bytes() const { return communication_bytes_; }
  // True when units of different layouts share the gradient slot, so that gaps must be cleared.
  bool clears_gradient(int grad_slot) const { return grad_slot_mixed_.at(grad_slot); }

 private:
  using ViewKey = std::tuple<int, int, bool>;  // block, gradient slot, accumulate

  std::vector<at::Tensor> allocate(Communicator& communicator, std::span<const ArenaPart> parts);
  // The state of trainable elements [begin, begin + numel) of this rank, as views.
  std::vector<OptimizerTensor> optimizer_part(std::int64_t begin, std::int64_t numel) const;
  void place_units();
  void allocate_state();
  void allocate_slots();
  void zero_padding();
  std::vector<Parameter> make_views(int block, int grad_slot, bool accumulate) const;

  const UnitTable& table_;
  const SlotTable& slots_;
  ShardingOptions options_;
  Communicator& gather_;
  Communicator& reduce_;
  at::Device device_;
  std::vector<std::int64_t> trainable_begin_;  // [units] in the flat state
  std::vector<std::int64_t> frozen_begin_;     // [units] in frozen_
  std::int64_t communication_bytes_ = 0;
  std::int64_t trainable_numel_ = 0;
  std::int64_t frozen_numel_ = 0;
  FlatState state_;
  at::Tensor frozen_;  // compute dtype: owned parts of frozen parameters
  std::vector<at::Tensor> weight_slots_;
  std::vector<at::Tensor> grad_slots_;
  std::vector<bool> grad_slot_mixed_;
  at::Tensor reduce_output_;
  at::Tensor gradient_memory_;  // bytes
  at::Tensor gradient_;         // view of it
  std::vector<OptimizerRange> optimizer_ranges_;
  std::map<ViewKey, std::vector<Parameter>> views_;
};

}  // namespace packtrain
