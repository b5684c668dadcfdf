// Recompute by the rows of a micro-batch. memory.recompute is what the largest micro-batch needs.
// A smaller one recomputes in fewer layers: as few as keep its planned peak within that of the
// largest. Numbers do not change.
#pragma once

#include <cstdint>

#include "framework/config/config.h"
#include "framework/device/device.h"
#include "models/block/operator_tape.h"
#include "models/decoder/layer_policies.h"
#include "models/layers/decoder_config.h"

namespace packtrain {

// A micro-batch of `num_rows` rows before its examples are known. All rows but one are supervised,
// and sequences have 256 rows.
MicroBatchShape assumed_shape(const Config& config, DeviceKind device, std::int64_t num_rows);

// The policies of memory.recompute. Where it names rows, the policies of smaller micro-batches
// too, in 32 classes of size. Throws Error(kConfig) when it names more layers than there are.
LayerPolicies policies_by_rows(const Config& config, const DecoderConfig& decoder,
                               DeviceKind device);
// The recompute of one size of micro-batches, where memory.recompute names rows.
RecomputeByLayer recompute_of_rows(const Config& config, const DecoderConfig& decoder,
                                   DeviceKind device, std::int64_t num_rows);

}  // namespace packtrain
