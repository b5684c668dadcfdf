// What memory decides of a run: the token budget, and the settings of memory.fit.
#pragma once

#include <cstdint>
#include <optional>

#include "framework/config/config.h"
#include "framework/data/token_store.h"
#include "framework/device/device.h"
#include "models/layers/decoder_config.h"
#include "parallel/communicators/world.h"
#include "training/plan/plan_header.h"

namespace packtrain {

struct ResumePoint;

struct RunMemory {
  std::int64_t max_tokens = 0;         // of a micro-batch
  std::optional<FittedMemory> fitted;  // nothing: memory.fit chose nothing
};

// The configured values, else those of the checkpoint where their plan fits this device, else what
// memory.fit and batch.max_tokens_per_micro_batch: auto find. Rank 0 logs the choice. All ranks
// have the same. Collective. Must run before the run allocates anything on the device.
// parallel.shard_size: the result of choose_shard_size().
// Throws Error(kDevice) when no choice fits, and Error(kConfig) when no `auto` budget does.
RunMemory choose_run_memory(const Config& config, const DecoderConfig& decoder,
                            const TokenStore& store, const std::optional<ResumePoint>& resumed,
                            const Device& device, World& world);

}  // namespace packtrain
