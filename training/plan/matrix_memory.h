// Memory of Muon's matrices: what ranks exchange, and what Newton-Schulz works in.
#pragma once

#include <cstdint>

#include "framework/config/config.h"
#include "framework/device/device.h"
#include "parallel/sharding/unit_table.h"

namespace packtrain {

struct MatrixMemory {
  std::int64_t buffers = 0;    // bytes kept from step to step
  std::int64_t workspace = 0;  // bytes allocated and freed in an update
  const char* buffers_text = "Muon's, of units that ranks exchange";
  const char* workspace_text = "Muon's products, beyond the activations that are free then";
};

// Of the rank with most, for a model sharded over `shard_size` of `num_ranks` ranks. Zeros where no
// parameter is orthogonalised or has factored moments.
MatrixMemory matrix_memory(const UnitTable& table, const OptimizerSection& optimizer,
                           int shard_size, int num_ranks, DeviceKind device);

}  // namespace packtrain
