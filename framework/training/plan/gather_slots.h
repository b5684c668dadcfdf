// parallel.gather_slots: as given, or (`auto`) as many as memory holds.
#pragma once

#include <cstdint>

#include "framework/config/config.h"
#include "framework/device/device.h"
#include "framework/training/plan/memory_limit.h"
#include "models/decoder_config.h"
#include "parallel/world.h"

namespace packtrain {

// `auto`: kLeastGatherSlots and, on a GPU that shards weights, as many more as the memory plan of
// micro-batches of `max_tokens` leaves room for with a tenth of the device kept free. A block whose
// weights stay from forward to backward is gathered once a step instead of twice.
// Collective, before the run allocates anything on the device. parallel.shard_size: what
// choose_shard_size() came to.
int gather_slots(const Config& config, const DecoderConfig& decoder, std::int64_t max_tokens,
                 const Device& device, World& world);
// Without devices or ranks.
int assumed_gather_slots(const Config& config, const DecoderConfig& decoder,
                         std::int64_t max_tokens, const AssumedDevice& device);

}  // namespace packtrain
