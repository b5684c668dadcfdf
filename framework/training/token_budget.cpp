#include "framework/training/token_budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "collators/batch_builder.h"
#include "framework/device/host_memory.h"
#include "framework/support/error.h"
#include "framework/training/memory_estimate.h"

namespace packtrain {
namespace {

constexpr double kGibibyte = 1024.0 * 1024.0 * 1024.0;
constexpr double kGpuShare = 0.95;
constexpr double kGpuReserveGib = 1.0;
constexpr double kGpuContextGib = 0.75;
constexpr double kHostShare = 0.5;

double gib(std::int64_t bytes) {
  return static_cast<double>(bytes) / kGibibyte;
}

MemoryLimit given_limit(double limit_gib) {
  return {static_cast<std::int64_t>(limit_gib * kGibibyte), "memory.limit_gib"};
}

MemoryLimit gpu_limit(double available, const std::string& what) {
  const double bytes = std::max(0.0, kGpuShare * available - kGpuReserveGib * kGibibyte);
  return {static_cast<std::int64_t>(bytes),
          fmt::format("{:.0f} % of {} less {:.0f} GiB", 100 * kGpuShare, what, kGpuReserveGib)};
}

MemoryLimit host_limit(std::int64_t available, int ranks_on_host) {
  if (available <= 0) {
    throw Error(ErrorCategory::kConfig,
                "batch.max_tokens_per_micro_batch is auto, but this host does not tell how much "
                "memory is available",
                "Set memory.limit_gib, or batch.max_tokens_per_micro_batch itself.");
  }
  const double bytes = kHostShare * static_cast<double>(available) / ranks_on_host;
  return {static_cast<std::int64_t>(bytes),
          fmt::format("{:.0f} % of this host's available memory for {} rank{}", 100 * kHostShare,
                      ranks_on_host, ranks_on_host == 1 ? "" : "s")};
}

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// No micro-batch can use more.
std::int64_t most_useful_tokens(const Config& config, int num_ranks) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  const BatchSection& batch = config.batch;
  const std::int64_t rows = std::min(batch.global_batch_size.value_or(1), kMost);
  std::int64_t step = batch.global_batch_tokens.value_or(rows * config.data.max_length);
  if (batch.strategy == Strategy::kMultipack) step = (step + num_ranks - 1) / num_ranks;
  return std::min(std::max(step, config.data.max_length), kMost);
}

[[noreturn]] void fail_no_room(const Config& config, const MemoryEstimate& estimate,
                               const MemoryLimit& limit) {
  throw Error(
      ErrorCategory::kConfig,
      fmt::format("batch.max_tokens_per_micro_batch: auto finds no room: an example of "
                  "data.max_length = {} tokens needs an estimated {:.3g} GiB of a rank's memory "
                  "({:.3g} state, {:.3g} slots, {:.3g} activations, {:.3g} working), and it may "
                  "use {:.3g} GiB ({})",
                  config.data.max_length, gib(estimate.total()), gib(estimate.state),
                  gib(estimate.slots), gib(estimate.activations), gib(estimate.working),
                  gib(limit.bytes), limit.basis),
      "Lower data.max_length, set memory.recompute: full, use more ranks, or raise "
      "memory.limit_gib if the device has more.");
}

}  // namespace

MemoryLimit memory_limit(const MemorySection& memory, const Device& device, int ranks_on_host) {
  if (memory.limit_gib) return given_limit(*memory.limit_gib);
  const std::size_t available = device.available_memory_bytes();
  if (device.kind() == DeviceKind::kCpu) {
    return host_limit(static_cast<std::int64_t>(available), ranks_on_host);
  }
  return gpu_limit(static_cast<double>(available),
                   fmt::format("the {:.2f} GiB free on {}",
                               gib(static_cast<std::int64_t>(available)), device.name()));
}

MemoryLimit assumed_memory_limit(const Config& config, int num_ranks) {
  if (config.memory.limit_gib) return given_limit(*config.memory.limit_gib);
  const BackendKind backend = config.parallel.backend;
  const bool may_use_gpu = backend == BackendKind::kAuto || backend == BackendKind::kNccl;
  if (may_use_gpu && num_cuda_devices() > 0) {
    const auto total = static_cast<double>(cuda_memory_bytes(0));
    return gpu_limit(total - kGpuContextGib * kGibibyte, "this machine's first GPU");
  }
  return host_limit(host_available_memory_bytes(), num_ranks);
}

std::int64_t largest_token_budget(const Config& config, const DecoderConfig& decoder, int num_ranks,
                                  const MemoryLimit& limit) {
  constexpr std::int64_t kMostRows = std::numeric_limits<std::int32_t>::max();
  const std::int64_t multiple = CollatorOptions{}.row_multiple;
  const std::int64_t most_useful = most_useful_tokens(config, num_ranks);
  const auto estimate = [&](std::int64_t count) {
    return estimate_memory(config, decoder, num_ranks, count * multiple,
                           /*several_micro_batches=*/count * multiple < most_useful);
  };
  const auto fits = [&](std::int64_t count) { return estimate(count).total() <= limit.bytes; };
  const std::int64_t least = round_up(config.data.max_length, multiple) / multiple;
  if (least > kMostRows / multiple || !fits(least)) fail_no_room(config, estimate(least), limit);
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
  MemoryLimit limit = memory_limit(config.memory, device, world.local_size());
  world.control().all_reduce(&limit.bytes, 1, DataType::kInt64, ReduceOp::kMin, nullptr);
  return {largest_token_budget(config, decoder, world.size(), limit), limit};
}

TokenBudget assumed_token_budget(const Config& config, const DecoderConfig& decoder,
                                 int num_ranks) {
  if (const auto given = config.batch.max_tokens_per_micro_batch) return {*given, {}};
  const MemoryLimit limit = assumed_memory_limit(config, num_ranks);
  return {largest_token_budget(config, decoder, num_ranks, limit), limit};
}

}  // namespace packtrain
