#include "framework/training/plan/token_budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "collators/batch_builder.h"
#include "framework/device/host_memory.h"
#include "framework/support/error.h"
#include "parallel/sharding/shard_groups.h"

namespace packtrain {
namespace {

constexpr double kGibibyte = 1024.0 * 1024.0 * 1024.0;
// Soaks of 1,000 steps of all sizes: the allocator holds 2 to 3 % more than tensors need at most.
constexpr double kGpuShare = 0.96;
constexpr double kHostShare = 0.5;

double gib(std::int64_t bytes) {
  return static_cast<double>(bytes) / kGibibyte;
}

MemoryLimit given_limit(double limit_gib) {
  const auto bytes = static_cast<std::int64_t>(limit_gib * kGibibyte);
  return {bytes, bytes, "memory.limit_gib"};
}

MemoryLimit gpu_limit(std::int64_t total, const std::string& whose) {
  return {static_cast<std::int64_t>(kGpuShare * static_cast<double>(total)), total,
          fmt::format("{:.0f} % of {} {:.2f} GiB", 100 * kGpuShare, whose, gib(total))};
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

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

[[noreturn]] void fail_no_room(const Config& config, const MemoryPlan& plan,
                               const MemoryLimit& limit) {
  throw Error(
      ErrorCategory::kConfig,
      fmt::format("batch.max_tokens_per_micro_batch: auto finds no room: an example of "
                  "data.max_length = {} tokens needs an estimated {:.3g} GiB of a rank's memory, "
                  "and it may use {:.3g} GiB ({})\n{}",
                  config.data.max_length, gib(plan.total()), gib(limit.bytes), limit.basis,
                  memory_table(plan, 0)),
      "Lower data.max_length, set memory.recompute: full, use more ranks, or raise "
      "memory.limit_gib if the device has more.");
}

// The figures of the rank with the least room, on all of them.
struct LeastRoom {
  MemoryRanks ranks;
  MemoryLimit limit;
};

LeastRoom least_room(const Config& config, const Device& device, World& world) {
  const int shard_size = choose_shard_size(config.parallel.shard_size, world);
  LeastRoom room{memory_ranks(device, world.size(), shard_size),
                 memory_limit(config.memory, device, world.local_size())};
  std::int64_t figures[] = {room.limit.bytes, room.limit.with_reserve,
                            -room.ranks.taken_bytes.value_or(0)};
  world.control().all_reduce(figures, std::size(figures), DataType::kInt64, ReduceOp::kMin,
                             nullptr);
  room.limit.bytes = figures[0];
  room.limit.with_reserve = figures[1];
  if (room.ranks.taken_bytes) room.ranks.taken_bytes = -figures[2];
  return room;
}

}  // namespace

MemoryLimit memory_limit(const MemorySection& memory, const Device& device, int ranks_on_host) {
  if (memory.limit_gib) return given_limit(*memory.limit_gib);
  if (device.kind() == DeviceKind::kCpu) {
    return host_limit(static_cast<std::int64_t>(device.available_memory_bytes()), ranks_on_host);
  }
  return gpu_limit(static_cast<std::int64_t>(device.total_memory_bytes()), device.name() + "'s");
}

AssumedDevice assume_device(const Config& config, int num_ranks, std::optional<double> gpu_gib) {
  const BackendKind backend = config.parallel.backend;
  const bool may_use_gpu = backend == BackendKind::kAuto || backend == BackendKind::kNccl;
  const std::int64_t shard_size = config.parallel.shard_size.value_or(num_ranks);
  check_shard_size(shard_size, num_ranks);
  AssumedDevice assumed{{DeviceKind::kCpu, num_ranks, static_cast<int>(shard_size)}, 0, ""};
  if (gpu_gib) {
    assumed.gpu_bytes = static_cast<std::int64_t>(*gpu_gib * kGibibyte);
    assumed.whose = "a GPU's";
  } else if (may_use_gpu && num_cuda_devices() > 0) {
    assumed.gpu_bytes = static_cast<std::int64_t>(cuda_memory_bytes(0));
    assumed.whose = "this machine's first GPU's";
  }
  if (assumed.gpu_bytes > 0) assumed.ranks.device = DeviceKind::kCuda;
  return assumed;
}

MemoryLimit assumed_memory_limit(const MemorySection& memory, const AssumedDevice& device) {
  if (memory.limit_gib) return given_limit(*memory.limit_gib);
  if (device.gpu_bytes > 0) return gpu_limit(device.gpu_bytes, device.whose);
  return host_limit(host_available_memory_bytes(), device.ranks.num_ranks);
}

std::int64_t most_useful_tokens(const Config& config, int num_ranks) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  const BatchSection& batch = config.batch;
  const std::int64_t rows = std::min(batch.global_batch_size.value_or(1), kMost);
  std::int64_t step = batch.global_batch_tokens.value_or(rows * config.data.max_length);
  if (batch.strategy == Strategy::kMultipack) step = (step + num_ranks - 1) / num_ranks;
  return std::min(std::max(step, config.data.max_length), kMost);
}

std::int64_t largest_token_budget(const Config& config, const DecoderConfig& decoder,
                                  const MemoryRanks& ranks, const MemoryLimit& limit) {
  constexpr std::int64_t kMostRows = std::numeric_limits<std::int32_t>::max();
  const std::int64_t multiple = CollatorOptions{}.row_multiple;
  const std::int64_t most_useful = most_useful_tokens(config, ranks.num_ranks);
  const MemoryPlanner planner(config, decoder, ranks);
  const auto plan = [&](std::int64_t count) {
    return planner.plan(
        {.num_rows = count * multiple, .several_micro_batches = count * multiple < most_useful});
  };
  const auto fits = [&](std::int64_t count) { return plan(count).total() <= limit.bytes; };
  const std::int64_t least = round_up(config.data.max_length, multiple) / multiple;
  if (least > kMostRows / multiple || !fits(least)) fail_no_room(config, plan(least), limit);
  std::int64_t low = least;  // fits
  std::int64_t high =
      std::min(round_up(most_useful, multiple), kMostRows / multiple * multiple) / multiple;
  if (fits(high)) return high * multiple;  // one micro-batch holds a step, which takes less
  while (low < high) {
    const std::int64_t middle = low + (high - low + 1) / 2;
    if (fits(middle)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low * multiple;
}

TokenBudget token_budget(const Config& config, const DecoderConfig& decoder, const Device& device,
                         World& world) {
  if (const auto given = config.batch.max_tokens_per_micro_batch) return {*given, {}};
  const LeastRoom room = least_room(config, device, world);
  return {largest_token_budget(config, decoder, room.ranks, room.limit), room.limit};
}

TokenBudget assumed_token_budget(const Config& config, const DecoderConfig& decoder,
                                 const AssumedDevice& device) {
  if (const auto given = config.batch.max_tokens_per_micro_batch) return {*given, {}};
  const MemoryLimit limit = assumed_memory_limit(config.memory, device);
  return {largest_token_budget(config, decoder, device.ranks, limit), limit};
}

void check_kept_budget(const Config& config, const DecoderConfig& decoder, std::int64_t tokens,
                       const std::string& folder, const Device& device, World& world) {
  const LeastRoom room = least_room(config, device, world);
  const MemoryPlan plan =
      MemoryPlanner(config, decoder, room.ranks)
          .plan({.num_rows = tokens,
                 .several_micro_batches = tokens < most_useful_tokens(config, world.size())});
  if (plan.total() <= room.limit.with_reserve) return;
  const bool packs = config.batch.strategy == Strategy::kMultipack;
  throw Error(
      ErrorCategory::kConfig,
      fmt::format("{} was trained with {} tokens a micro-batch, found by "
                  "batch.max_tokens_per_micro_batch: auto; here they need an estimated {:.3g} GiB "
                  "of a rank's memory, which has {:.3g} GiB\n{}",
                  folder, tokens, gib(plan.total()), gib(room.limit.with_reserve),
                  memory_table(plan, 0)),
      packs ? "Packs are made of that many tokens: set memory.recompute: full, or resume on more "
              "ranks or on devices with as much memory."
            : "Set batch.max_tokens_per_micro_batch to what fits here (the steps stay the same), "
              "memory.recompute: full, or use more ranks.");
}

}  // namespace packtrain
