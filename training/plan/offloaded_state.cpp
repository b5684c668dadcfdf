// The part of the memory plan that memory.offload: optimizer moves to host memory.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "framework/config/offload.h"
#include "parallel/sharding/state_slot_size.h"
#include "training/plan/memory_plan.h"

namespace packtrain {
namespace {

constexpr auto kMasterBytes = static_cast<std::int64_t>(sizeof(float));

void add_state_entry(std::vector<MemoryEntry>& entries, std::string name, std::int64_t bytes,
                     std::string what) {
  if (bytes > 0) entries.push_back({std::move(name), bytes, std::move(what)});
}

}  // namespace

// Slots have the size of the largest part of an update (training/steps/streamed_parts.cpp), that of
// a unit where units are gathered. Several optimizers may have smaller parts.
void MemoryPlanner::find_offloaded_sizes(const UnitTable& table, const OwnedLayout& owned) {
  for (const WeightBuffer& buffer : owned.buffers) {
    if (buffer.is_master()) sizes_.float32_weights += buffer.size_bytes();
  }
  sizes_.offloaded_masters = offloaded_master_bytes(owned);
  std::int64_t largest = 0;
  std::int64_t all = 0;
  for (const Unit& unit : table.units) {
    const std::int64_t numel = unit.trainable_shard_numel();
    const std::int64_t master = sizes_.offloaded_masters > 0 ? numel * kMasterBytes : 0;
    const std::int64_t bytes = master + state_bytes(state_specs_, numel);
    largest = std::max(largest, bytes);
    all += bytes;
  }
  const std::int64_t part = is_sharded() ? largest : all;
  sizes_.state_slots =
      static_cast<std::int64_t>(kStateSlots) * std::min(part, state_slot_bytes(all));
}

void MemoryPlanner::add_masters(MemoryPlan& plan) const {
  const bool offloads = offloads_optimizer(config_.memory.offload);
  const bool is_float32 = config_.precision.master == Precision::kFloat32;
  add_state_entry(plan.allocated, "master weights",
                  offloads ? sizes_.float32_weights : sizes_.master_bytes,
                  is_float32 ? "float32, owned" : "bfloat16, owned");
  add_state_entry(plan.offloaded_state, "master weights", sizes_.offloaded_masters,
                  "float32, owned");
}

void MemoryPlanner::add_moments(MemoryPlan& plan) const {
  const bool offloads = offloads_optimizer(config_.memory.offload);
  add_state_entry(offloads ? plan.offloaded_state : plan.allocated, "moments", sizes_.state_bytes,
                  moments_text());
  add_state_entry(plan.allocated, "optimizer slots", sizes_.state_slots,
                  fmt::format("{} of the state in host memory", kStateSlots));
}

}  // namespace packtrain
