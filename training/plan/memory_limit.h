// How much device memory a rank may use: of its device, or of an assumed one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "framework/config/config.h"
#include "framework/device/device.h"
#include "models/layers/decoder_config.h"
#include "parallel/communicators/world.h"
#include "parallel/sharding/shard_groups.h"
#include "training/plan/memory_plan.h"

namespace packtrain {

// A run may use this share of a host's available memory. The rest is for data, for the program, and
// for what else pins memory.
constexpr double kUsableHostShare = 0.8;

// What one rank may use of its device's memory.
struct MemoryLimit {
  std::int64_t bytes = 0;
  std::int64_t with_reserve = 0;  // the limit without the reserve
  std::string basis;              // source of the figure, for people
  // Host memory that a rank may use for what it takes off a GPU. Nothing: not known.
  std::optional<std::int64_t> host_bytes = {};
};

// memory.limit_gib if given; it then covers all memory that a rank uses. Otherwise:
// CUDA: 96 % of the device's memory. The rest covers fragmentation of the allocator.
// CPU: half of the host's available memory, divided by `ranks_on_host`.
// With CUDA, host_bytes is 80 % of the host's available memory, divided by `ranks_on_host`.
// Throws Error(kConfig) when the host does not report its memory.
MemoryLimit memory_limit(const MemorySection& memory, const Device& device, int ranks_on_host);

// The expected device of each rank on this machine. GPUs like its first one if it has one and the
// backend may use it, or GPUs of `gpu_gib`; else CPU ranks.
struct AssumedDevice {
  MemoryRanks ranks;
  RankHosts hosts;
  std::int64_t gpu_bytes = 0;   // GPU: all its memory
  std::string whose;            // GPU: whose memory it is, for people
  std::int64_t host_bytes = 0;  // available memory of a host; 0: not known
};
// Uses the shard size that a run on these hosts would have. Without `host_gib` a host has as much
// available memory as this one, unless GPUs of another machine are assumed.
AssumedDevice assume_device(const Config& config, const DecoderConfig& decoder,
                            const RankHosts& hosts, std::optional<double> gpu_gib = std::nullopt,
                            std::optional<double> host_gib = std::nullopt);
MemoryLimit assumed_memory_limit(const MemorySection& memory, const AssumedDevice& device);

// The figures of the rank with the least free memory, the same on all ranks.
struct MinFreeMemory {
  MemoryRanks ranks;  // without a shard size where parallel.shard_size is auto
  MemoryLimit limit;
};
// Collective. Must run before the run allocates anything on the device.
MinFreeMemory min_free_memory(const Config& config, const Device& device, World& world);

}  // namespace packtrain
