#include "training/plan/token_budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "collators/batch_builder.h"
#include "framework/config/adapters.h"
#include "framework/core/error.h"
#include "framework/core/math.h"
#include "framework/core/units.h"

namespace packtrain {
namespace {

[[noreturn]] void fail_no_room(const Config& config, const MemoryPlan& plan,
                               const MemoryRanks& ranks, const MemoryLimit& limit) {
  const std::string sharing = sharing_advice(plan, ranks, limit.bytes);
  const bool may_recompute = config.memory.recompute != RecomputeByLayer(Recompute::kFull);
  throw Error(
      ErrorCategory::kConfig,
      fmt::format("batch.max_tokens_per_micro_batch: auto finds no room: an example of "
                  "data.max_length = {} tokens needs an estimated {:.3g} GiB of a rank's memory, "
                  "and it may use {:.3g} GiB ({})\n{}",
                  config.data.max_length, to_gibibytes(plan.total()), to_gibibytes(limit.bytes),
                  limit.basis, memory_table(plan, 0)),
      fmt::format("Lower data.max_length, {}{}{}or raise memory.limit_gib if the device has more.",
                  may_recompute ? "set memory.recompute: full, " : "", sharing,
                  sharing.empty() ? "" : ", "));
}

}  // namespace

namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();

// The most tokens of a micro-batch that one adapter's step can use.
std::int64_t tokens_of_step(const Config& config, int num_ranks) {
  const BatchSection& batch = config.batch;
  if (traits_of(batch.strategy).has_plan_file) return kMost;
  const std::int64_t rows = std::min(batch.global_batch_size.value_or(1), kMost);
  std::int64_t step = batch.global_batch_tokens.value_or(rows * config.data.max_length);
  if (traits_of(batch.strategy).has_packs) step = (step + num_ranks - 1) / num_ranks;
  return std::min(std::max(step, config.data.max_length), kMost);
}

}  // namespace

std::int64_t max_useful_tokens(const Config& config, int num_ranks) {
  std::int64_t sum = 0;
  for (const Config& own : adapter_configs(config)) sum += tokens_of_step(own, num_ranks);
  return std::min(sum, kMost);
}

std::int64_t largest_token_budget(const Config& config, const DecoderConfig& decoder,
                                  const MemoryRanks& ranks, const MemoryLimit& limit) {
  constexpr std::int64_t kLargestNumRows = std::numeric_limits<std::int32_t>::max();
  const std::int64_t multiple = CollatorOptions{}.row_multiple;
  const std::int64_t most_useful = max_useful_tokens(config, ranks.num_ranks);
  const MemoryPlanner planner(config, decoder, ranks);
  const auto plan = [&](std::int64_t count) {
    return planner.plan(
        {.num_rows = count * multiple, .several_micro_batches = count * multiple < most_useful});
  };
  const auto fits = [&](std::int64_t count) { return plan(count).total() <= limit.bytes; };
  const std::int64_t least = round_up(config.data.max_length, multiple) / multiple;
  if (least > kLargestNumRows / multiple || !fits(least))
    fail_no_room(config, plan(least), ranks, limit);
  std::int64_t low = least;  // fits
  std::int64_t high =
      std::min(round_up(most_useful, multiple), kLargestNumRows / multiple * multiple) / multiple;
  if (fits(high))
    return high * multiple;  // one micro-batch holds a whole step, which needs less memory
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
  const MinFreeMemory free_memory = min_free_memory(config, device, world);
  return {largest_token_budget(config, decoder, free_memory.ranks, free_memory.limit),
          free_memory.limit};
}

TokenBudget assumed_token_budget(const Config& config, const DecoderConfig& decoder,
                                 const AssumedDevice& device) {
  if (const auto given = config.batch.max_tokens_per_micro_batch) return {*given, {}};
  const MemoryLimit limit = assumed_memory_limit(config.memory, device);
  return {largest_token_budget(config, decoder, device.ranks, limit), limit};
}

void check_kept_budget(const Config& config, const DecoderConfig& decoder, std::int64_t tokens,
                       const std::string& folder, const Device& device, World& world) {
  const MinFreeMemory free_memory = min_free_memory(config, device, world);
  const MemoryPlan plan =
      MemoryPlanner(config, decoder, free_memory.ranks)
          .plan({.num_rows = tokens,
                 .several_micro_batches =
                     tokens < max_useful_tokens(config, free_memory.ranks.num_ranks)});
  if (plan.total() <= free_memory.limit.with_reserve) return;
  const bool packs = traits_of(config.batch.strategy).has_packs;
  const std::string sharing =
      sharing_advice(plan, free_memory.ranks, free_memory.limit.with_reserve);
  throw Error(
      ErrorCategory::kConfig,
      fmt::format("{} was trained with {} tokens a micro-batch, found by "
                  "batch.max_tokens_per_micro_batch: auto; here they need an estimated {:.3g} GiB "
                  "of a rank's memory, which has {:.3g} GiB\n{}",
                  folder, tokens, to_gibibytes(plan.total()),
                  to_gibibytes(free_memory.limit.with_reserve), memory_table(plan, 0)),
      packs ? fmt::format("Packs are made of that many tokens: set memory.recompute: full{}{}, or "
                          "resume on devices with as much memory.",
                          sharing.empty() ? "" : ", ", sharing)
            : fmt::format("Set batch.max_tokens_per_micro_batch to what fits here (the steps stay "
                          "the same){}{}, or memory.recompute: full.",
                          sharing.empty() ? "" : ", ", sharing));
}

}  // namespace packtrain
