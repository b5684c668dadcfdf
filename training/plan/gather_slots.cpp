#include "training/plan/gather_slots.h"

#include <algorithm>
#include <optional>

#include "training/plan/memory_plan.h"
#include "training/plan/token_budget.h"

namespace packtrain {
namespace {

int slots_within(const Config& config, const DecoderConfig& decoder, std::int64_t max_tokens,
                 const MemoryRanks& ranks, const MemoryLimit& limit) {
  const auto available = static_cast<std::int64_t>(kSlotShare * static_cast<double>(limit.bytes));
  const auto need = [&](int slots) {
    Config tried = config;
    tried.parallel.gather_slots = slots;
    return MemoryPlanner(tried, decoder, ranks)
        .plan({.num_rows = max_tokens,
               .several_micro_batches = max_tokens < max_useful_tokens(config, ranks.num_ranks)})
        .total();
  };
  const int all = std::max(kMinGatherSlots, static_cast<int>(decoder.num_layers));
  // Counts down one by one. When layers differ, a slot's size depends on the layers that share it.
  int slots = all;
  while (slots > kMinGatherSlots && need(slots) > available) --slots;
  return slots;
}

}  // namespace

std::optional<int> slots_without_limit(const ParallelSection& parallel, DeviceKind device,
                                       int num_ranks) {
  if (parallel.gather_slots) return static_cast<int>(*parallel.gather_slots);
  const bool gathers = device == DeviceKind::kCuda && num_ranks > 1 && parallel.zero_stage == 3;
  return gathers ? std::nullopt : std::optional(kMinGatherSlots);
}

int gather_slots(const Config& config, const DecoderConfig& decoder, std::int64_t max_tokens,
                 const Device& device, World& world) {
  const auto slots = slots_without_limit(config.parallel, device.kind(), data_parallel_size(world));
  if (slots) return *slots;
  const MinFreeMemory free_memory = min_free_memory(config, device, world);
  return slots_within(config, decoder, max_tokens, free_memory.ranks, free_memory.limit);
}

int assumed_gather_slots(const Config& config, const DecoderConfig& decoder,
                         std::int64_t max_tokens, const AssumedDevice& device) {
  const MemoryRanks& ranks = device.ranks;
  const auto slots = slots_without_limit(config.parallel, ranks.device, ranks.num_ranks);
  if (slots) return *slots;
  return slots_within(config, decoder, max_tokens, device.ranks,
                      assumed_memory_limit(config.memory, device));
}

}  // namespace packtrain
