// Resolves parallel.gather_slots: the given number, or with `auto` as many as memory allows.
#pragma once

#include <cstdint>
#include <optional>

#include "framework/config/config.h"
#include "framework/device/device.h"
#include "models/layers/decoder_config.h"
#include "parallel/communicators/world.h"
#include "training/plan/memory_limit.h"

namespace packtrain {

// Share of a memory limit that additional slots may fill. The rest stays free for evaluations,
// samples and other work.
inline constexpr double kSlotShare = 0.94;

// Decides the cases that need no memory limit, which some hosts do not report.
std::optional<int> slots_without_limit(const ParallelSection& parallel, DeviceKind device,
                                       int num_ranks);

// `auto`: kMinGatherSlots. A GPU that shards weights adds as many as the memory plan of
// micro-batches of `max_tokens` allows with a tenth of the device free. A block whose weights stay
// from forward to backward is gathered once a step instead of twice.
// Collective. Must run before the run allocates anything on the device. parallel.shard_size: the
// result of choose_shard_size().
int gather_slots(const Config& config, const DecoderConfig& decoder, std::int64_t max_tokens,
                 const Device& device, World& world);
// The same for an assumed device, without ranks.
int assumed_gather_slots(const Config& config, const DecoderConfig& decoder,
                         std::int64_t max_tokens, const AssumedDevice& device);

}  // namespace packtrain
