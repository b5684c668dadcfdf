// Selects the collator of a strategy's micro-batches.
#pragma once

#include "collators/batch_builder.h"
#include "framework/config/config.h"

namespace packtrain {

using Collator = PackedBatch (*)(const TokenStore& store, const MicroBatch& pieces,
                                 const LossNormalization& normalization,
                                 const CollatorOptions& options, const HostAllocator& allocate);

Collator find_collator(Strategy strategy);

}  // namespace packtrain
