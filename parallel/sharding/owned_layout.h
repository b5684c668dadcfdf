// Where the weights that a rank owns are stored: one buffer for each encoding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "parallel/sharding/optimizer_state.h"
#include "parallel/sharding/unit_table.h"

namespace packtrain {

// The parts of all units that have one encoding and are all trainable or all frozen, in the order
// of the units. Sizes are in elements.
struct WeightBuffer {
  bool trainable = true;
  ParameterEncoding encoding;
  bool own_master = false;  // ParameterSpec::own_master
  std::int64_t numel = 0;

  // Trainable float32 weights are the optimizer's master itself, and so are those that are their
  // own master.
  bool is_master() const {
    return trainable && (own_master || encoding.type == DataType::kFloat32);
  }
  // Where the state stays on the device, this buffer has the elements of all trainable parts,
  // because it is the master of all.
  bool is_master_of_all() const { return is_master() && !own_master; }
  std::int64_t size_bytes() const { return encoding.size_bytes(numel); }
};

struct OwnedPart {
  std::size_t buffer = 0;
  std::int64_t begin = 0;        // in the buffer
  std::int64_t state_begin = 0;  // trainable: in the optimizer's state
};

struct OwnedLayout {
  std::vector<WeightBuffer> buffers;          // trainable ones first, by encoding
  std::vector<std::vector<OwnedPart>> parts;  // [units][parts of the unit]
  std::int64_t trainable_numel = 0;           // of the optimizer's state

  // Trainable weights are their own masters: there is no float32 master.
  bool has_own_masters() const;
  // Bytes of the masters, and of trainable weights in addition to them.
  std::int64_t master_bytes() const;
  std::int64_t trainable_copy_bytes() const;
};

// `offloads_state`: as ShardingOptions::offload_state. A buffer that is the master then has its own
// parts alone.
OwnedLayout make_owned_layout(const UnitTable& table, bool offloads_state = false);

// Bytes of master weights in host memory, with ShardingOptions::offload_state. Float32 weights stay
// on the device.
std::int64_t offloaded_master_bytes(const OwnedLayout& layout);

// Bytes of the optimizer's state of the rank of `num_ranks` that owns most of it.
std::int64_t most_state_bytes(const UnitTable& table, const std::vector<OptimizerStateSpec>& state,
                              int num_ranks);

}  // namespace packtrain
