// The temperature of attention by position (QueryTemperature in decoder_config.h).
#pragma once

#include <ATen/core/Tensor.h>

#include "models/block/batch.h"
#include "models/layers/decoder_config.h"

namespace packtrain {

// Multiplies queries, or their gradients, [T, heads, D] in place. Does nothing where no sequence of
// the batch has a position with another factor than 1.
void scale_queries_(const at::Tensor& queries, const DeviceBatch& batch,
                    const QueryTemperature& temperature);

}  // namespace packtrain
