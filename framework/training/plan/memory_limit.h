// How much of its device's memory a rank may use: of the device it is on, or of one assumed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "framework/config/config.h"
#include "framework/device/device.h"
#include "framework/training/plan/memory_plan.h"
#include "models/decoder_config.h"
#include "parallel/sharding/shard_groups.h"
#include "parallel/world.h"

namespace packtrain {

// What one rank may use of its device's memory.
struct MemoryLimit {
  std::int64_t bytes = 0;
  std::int64_t with_reserve = 0;  // the same, nothing left aside
  std::string basis;              // where the figure comes from, for people
};

// memory.limit_gib, which then holds all that a rank takes, else of the device
// CUDA: 96 % of its memory; the rest is for what the allocator cannot use of freed memory;
// CPU: half of what the host has available, divided by its `ranks_on_host`.
// Throws Error(kConfig) when the host does not tell its memory.
MemoryLimit memory_limit(const MemorySection& memory, const Device& device, int ranks_on_host);

// The device of each rank, as this machine lets one expect it: GPUs like its first one, where it
// has one and the backend may use it, or GPUs of `gpu_gib`; else CPU ranks on it.
struct AssumedDevice {
  MemoryRanks ranks;
  RankHosts hosts;
  std::int64_t gpu_bytes = 0;  // GPU: all its memory
  std::string whose;           // GPU: for people
};
// With the shard size that a run on these hosts would have.
AssumedDevice assume_device(const Config& config, const DecoderConfig& decoder,
                            const RankHosts& hosts, std::optional<double> gpu_gib = std::nullopt);
MemoryLimit assumed_memory_limit(const MemorySection& memory, const AssumedDevice& device);

// The figures of the rank with the least room, on all of them.
struct MinFreeMemory {
  MemoryRanks ranks;  // without a shard size where parallel.shard_size is auto
  MemoryLimit limit;
};
// Collective, before the run allocates anything on the device.
MinFreeMemory min_free_memory(const Config& config, const Device& device, World& world);

}  // namespace packtrain
