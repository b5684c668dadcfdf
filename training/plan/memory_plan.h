// Memory of a rank by purpose, computed from shapes alone: no device, no weights. Users: `packtrain
// plan`, batch.max_tokens_per_micro_batch: auto, and a run, which compares it with its measurement
// (memory_report.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "framework/config/config.h"
#include "framework/device/device.h"
#include "models/block/operator_tape.h"
#include "models/decoder/layer_policies.h"
#include "models/estimates/memory_peaks.h"
#include "models/layers/decoder_config.h"
#include "parallel/sharding/optimizer_state.h"
#include "parallel/sharding/owned_layout.h"
#include "training/plan/matrix_memory.h"

namespace packtrain {

struct MemoryEntry {
  std::string name;
  std::int64_t bytes = 0;
  std::string what;  // for people
};

std::int64_t sum_bytes(const std::vector<MemoryEntry>& entries);

struct MemoryPlan {
  // Tensors and communication memory at the largest memory peak of a step.
  std::vector<MemoryEntry> allocated;
  std::string moment;
  // GPU: what driver and libraries use in addition.
  std::vector<MemoryEntry> outside;
  std::vector<SavedActivation> layer_values;  // saved by one layer from forward to backward
  std::int64_t shared_bytes = 0;     // of `allocated`: shrinks when more ranks share one copy
  std::int64_t offloaded_bytes = 0;  // activations that are kept in host memory
  std::vector<MemoryEntry> offloaded_state;  // of the optimizer: pinned host memory
  std::int64_t num_keys = 0;                 // of attention; 0: no prefix is shared
  std::string keys_basis;                    // where that number is from, for people

  std::int64_t allocated_bytes() const;
  std::int64_t outside_bytes() const;
  std::int64_t total() const { return allocated_bytes() + outside_bytes(); }
  // Pinned host memory, of activations and of the optimizer's state.
  std::int64_t on_host_bytes() const { return offloaded_bytes + sum_bytes(offloaded_state); }
};

struct MemoryRanks {
  DeviceKind device = DeviceKind::kCpu;
  int num_ranks = 1;   // of the run
  int shard_size = 0;  // ranks that share one copy of the model's state; 0: all
  // GPU: bytes in use before the run allocates anything, its context included. Nothing: a context
  // alone.
  std::optional<std::int64_t> taken_bytes = {};
};

// Reads the device. Must be called before the run allocates anything on it.
MemoryRanks memory_ranks(const Device& device, int num_ranks, int shard_size = 0);

struct MemoryLoad {
  std::int64_t num_rows = 0;  // of a micro-batch, padding included
  // Nothing: all but one row, because an example's last token has no label.
  std::optional<std::int64_t> num_supervised_rows = {};
  std::int64_t num_sequences = 0;     // 0: one for each 256 rows
  std::int64_t largest_num_rows = 0;  // of any micro-batch, if that is more
  // Keys of attention where segments have prefixes, copies of prefixes included; 0: none has.
  // Nothing: the bound of shared_keys.h for these rows.
  std::optional<std::int64_t> num_keys = {};
  std::int64_t largest_num_keys = 0;
  bool several_micro_batches = false;  // whether a step may have more than one
};

class MemoryPlanner {
 public:
  // Throws Error(kConfig) when a pattern in model.frozen matches no parameter, and for a second
  // model (objective.reference) that cannot be read.
  MemoryPlanner(const Config& config, const DecoderConfig& decoder, const MemoryRanks& ranks);

  MemoryPlan plan(const MemoryLoad& load) const;
  // Changes memory.recompute and batch.max_tokens_per_micro_batch for the next plans.
  void change(const RecomputeByLayer& recompute, std::optional<std::int64_t> max_tokens);

 private:
  bool is_sharded() const { return ranks_.shard_size > 1; }
  bool sums_locally() const {
    return is_sharded() && config_.parallel.accumulate == Accumulate::kLocal;
  }

  // Of the flat layouts, padding included. Elements, or bytes where the encoding decides.
  struct Sizes {
    std::int64_t trainable = 0;          // owned
    std::int64_t master_bytes = 0;       // owned
    std::int64_t weight_bytes = 0;       // owned and trainable, where they are not the master
    std::int64_t frozen_bytes = 0;       // owned, not encoded
    std::int64_t encoded_bytes = 0;      // owned and frozen
    std::int64_t decoded_weight = 0;     // elements of the largest encoded one
    std::int64_t weight_slot_bytes = 0;  // several ranks: destination of gathers
    std::int64_t sent_codes = 0;         // several ranks: 8-bit weights that a rank sends
    std::int64_t grad_slots = 0;         // several ranks: written by blocks
    std::int64_t local_sums = 0;         // several ranks: one element for each of a gradient
    std::int64_t reduce_output = 0;
    std::int64_t state_bytes = 0;  // owned: the optimizer's state, of the rank with most
    // With the optimizer's state in host memory: float32 weights, the other masters, and slots of
    // the copies.
    std::int64_t float32_weights = 0;
    std::int64_t offloaded_masters = 0;
    std::int64_t state_slots = 0;
    MatrixMemory matrices;  // of the rank with most
  };

  void find_sizes();
  void find_offloaded_sizes(const UnitTable& table, const OwnedLayout& owned);
  void add_masters(MemoryPlan& plan) const;
  void add_moments(MemoryPlan& plan) const;
  void find_reference();
  void add_state(bool several_micro_batches, MemoryPlan& plan) const;
  void add_slots(MemoryPlan& plan) const;
  void add_step(const MemoryLoad& load, MemoryPlan& plan) const;
  void add_outside(MemoryPlan& plan) const;
  std::string moments_text() const;

  Config config_;
  DecoderConfig decoder_;
  MemoryRanks ranks_;
  LayerPolicies policies_;
  Sizes sizes_;
  std::vector<OptimizerStateSpec> state_specs_;
  std::int64_t reference_bytes_ = 0;  // of the second model of objective.reference, or 0
  int num_weight_slots_ = 0;
  int num_grad_slots_ = 0;
};

// One line an entry, in MiB when all are below a GiB. Names the largest memory peak. With the
// device's memory it also shows what stays free. Where prefixes are shared it shows the number of
// keys, and where that is from. The last line has no newline.
std::string memory_table(const MemoryPlan& plan, std::int64_t device_bytes);

// Effect of a plan that needs more memory than the device has, and what to change. Empty when the
// plan fits or device_bytes is 0. `remedies`: from memory_suggestions.h.
std::string memory_shortage(const MemoryPlan& plan, const MemoryRanks& ranks,
                            std::int64_t device_bytes, const std::string& remedies);

// How to share one copy of the state among more ranks, as the end of an advice. It is "use more
// ranks", or a larger parallel.shard_size when groups are smaller than the run. Empty when that
// cannot bring the plan within `limit_bytes`.
std::string sharing_advice(const MemoryPlan& plan, const MemoryRanks& ranks,
                           std::int64_t limit_bytes);

}  // namespace packtrain
