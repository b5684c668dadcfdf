#include "training/plan/memory_limit.h"

#include <fmt/format.h>

#include <iterator>
#include <limits>

#include "framework/core/error.h"
#include "framework/core/units.h"
#include "framework/device/host_memory.h"
#include "training/plan/shard_size.h"

namespace packtrain {
namespace {

// In runs of 1,000 steps of all sizes the allocator held at most 2 to 3 % more than the tensors.
constexpr double kGpuShare = 0.96;
constexpr double kHostShare = 0.5;

std::optional<std::int64_t> offload_limit(std::int64_t available, int ranks_on_host) {
  if (available <= 0) return std::nullopt;
  return static_cast<std::int64_t>(kUsableHostShare *
                                   static_cast<double>(available / ranks_on_host));
}

MemoryLimit given_limit(double limit_gib) {
  const auto bytes = static_cast<std::int64_t>(limit_gib * kGibibyte);
  return {bytes, bytes, "memory.limit_gib"};
}

MemoryLimit gpu_limit(std::int64_t total, const std::string& whose) {
  return {static_cast<std::int64_t>(kGpuShare * static_cast<double>(total)), total,
          fmt::format("{:.0f} % of {} {:.2f} GiB", 100 * kGpuShare, whose, to_gibibytes(total))};
}

MemoryLimit host_limit(std::int64_t available, int ranks_on_host) {
  if (available <= 0) {
    throw Error(ErrorCategory::kConfig,
                "batch.max_tokens_per_micro_batch is auto, but this host does not tell how much "
                "memory is available",
                "Set memory.limit_gib, or batch.max_tokens_per_micro_batch itself.");
  }
  const std::int64_t share = available / ranks_on_host;
  return {static_cast<std::int64_t>(kHostShare * static_cast<double>(share)), share,
          fmt::format("{:.0f} % of this host's available memory for {} rank{}", 100 * kHostShare,
                      ranks_on_host, ranks_on_host == 1 ? "" : "s")};
}

}  // namespace

MemoryLimit memory_limit(const MemorySection& memory, const Device& device, int ranks_on_host) {
  const bool is_gpu = device.kind() == DeviceKind::kCuda;
  if (!is_gpu && !memory.limit_gib) {
    return host_limit(static_cast<std::int64_t>(device.available_memory_bytes()), ranks_on_host);
  }
  MemoryLimit limit =
      memory.limit_gib
          ? given_limit(*memory.limit_gib)
          : gpu_limit(static_cast<std::int64_t>(device.total_memory_bytes()), device.name() + "'s");
  if (is_gpu) limit.host_bytes = offload_limit(host_available_memory_bytes(), ranks_on_host);
  return limit;
}

AssumedDevice assume_device(const Config& config, const DecoderConfig& decoder,
                            const RankHosts& hosts, std::optional<double> gpu_gib,
                            std::optional<double> host_gib) {
  const bool may_use_gpu = config.parallel.backend.value_or(Backend::kNccl) == Backend::kNccl;
  AssumedDevice assumed{{DeviceKind::kCpu, hosts.num_ranks, 0}, hosts, 0, "", 0};
  if (gpu_gib) {
    assumed.gpu_bytes = static_cast<std::int64_t>(*gpu_gib * kGibibyte);
    assumed.whose = "a GPU's";
  } else if (may_use_gpu && num_cuda_devices() > 0) {
    assumed.gpu_bytes = static_cast<std::int64_t>(cuda_memory_bytes(0));
    assumed.whose = "this machine's first GPU's";
  }
  if (host_gib) {
    assumed.host_bytes = static_cast<std::int64_t>(*host_gib * kGibibyte);
  } else if (!gpu_gib) {
    assumed.host_bytes = host_available_memory_bytes();
  }
  if (assumed.gpu_bytes > 0) assumed.ranks.device = DeviceKind::kCuda;
  ShardMemory memory{hosts, assumed.ranks, {}};
  if (memory_decides_shard_size(config, hosts, assumed.ranks.device)) {
    memory.limit = assumed_memory_limit(config.memory, assumed);
  }
  assumed.ranks.shard_size = shard_size(config, decoder, memory);
  return assumed;
}

MemoryLimit assumed_memory_limit(const MemorySection& memory, const AssumedDevice& device) {
  const int ranks_on_host = device.hosts.ranks_per_host;
  const bool is_gpu = device.gpu_bytes > 0;
  if (!is_gpu && !memory.limit_gib) return host_limit(device.host_bytes, ranks_on_host);
  MemoryLimit limit =
      memory.limit_gib ? given_limit(*memory.limit_gib) : gpu_limit(device.gpu_bytes, device.whose);
  if (is_gpu) limit.host_bytes = offload_limit(device.host_bytes, ranks_on_host);
  return limit;
}

MinFreeMemory min_free_memory(const Config& config, const Device& device, World& world) {
  const auto shard_size = static_cast<int>(config.parallel.shard_size.value_or(0));
  MinFreeMemory memory{memory_ranks(device, data_parallel_size(world), shard_size),
                       memory_limit(config.memory, device, world.local_size())};
  constexpr std::int64_t kUnknown = std::numeric_limits<std::int64_t>::max();
  std::int64_t figures[] = {memory.limit.bytes, memory.limit.with_reserve,
                            -memory.ranks.taken_bytes.value_or(0),
                            memory.limit.host_bytes.value_or(kUnknown)};
  world.control().all_reduce(figures, std::size(figures), DataType::kInt64, ReduceOp::kMin,
                             nullptr);
  memory.limit.bytes = figures[0];
  memory.limit.with_reserve = figures[1];
  if (memory.ranks.taken_bytes) memory.ranks.taken_bytes = -figures[2];
  if (figures[3] < kUnknown) memory.limit.host_bytes = figures[3];
  return memory;
}

}  // namespace packtrain
