#include "training/plan/memory_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "framework/core/error.h"
#include "framework/core/file.h"
#include "framework/core/logging.h"
#include "framework/core/units.h"
#include "training/plan/memory_limit.h"
#include "training/plan/memory_suggestions.h"

namespace packtrain {
namespace {

constexpr double kTolerance = 0.03;
constexpr double kTolerableBytes = 256.0 * 1024 * 1024;

nlohmann::ordered_json to_json(const std::vector<MemoryEntry>& entries) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const MemoryEntry& entry : entries) json[entry.name] = entry.bytes;
  return json;
}

}  // namespace

MeasuredMemory measure_memory(const Device& device, std::int64_t communication_bytes) {
  const MemoryUse use = device.memory_use();
  const auto allocated = static_cast<std::int64_t>(use.allocated_bytes);
  const auto total = static_cast<std::int64_t>(device.total_memory_bytes());
  const auto available = static_cast<std::int64_t>(device.available_memory_bytes());
  MeasuredMemory measured;
  measured.allocated = static_cast<std::int64_t>(device.peak_memory_bytes()) + communication_bytes;
  measured.outside = total - available - allocated - communication_bytes;
  measured.cached = static_cast<std::int64_t>(use.reserved_bytes) - allocated;
  return measured;
}

MemoryReport::MemoryReport(const Config& config, const DecoderConfig& decoder, const Device& device,
                           const World& world)
    : config_(config),
      decoder_(decoder),
      device_(device),
      world_(world),
      ranks_(memory_ranks(device, data_parallel_size(world))) {
  if (device.kind() == DeviceKind::kCuda) {
    device_bytes_ = static_cast<std::int64_t>(device.total_memory_bytes());
  }
}

void MemoryReport::log_plan(const MemoryLoad& load, const ProcessMesh& mesh,
                            const Config& resolved) {
  config_ = resolved;
  ranks_.num_ranks = mesh.data_parallel_size();
  ranks_.shard_size = mesh.shard.size;
  planner_ = std::make_unique<MemoryPlanner>(config_, decoder_, ranks_);
  plan_ = planner_->plan(load);
  log_info("memory of a rank, planned for micro-batches of up to {} rows\n{}", load.num_rows,
           memory_table(plan_, device_bytes_));
  warn_of_shortage(load);
  write(nullptr);
}

void MemoryReport::warn_of_shortage(const MemoryLoad& load) const {
  if (device_bytes_ == 0 || plan_.total() <= device_bytes_) return;
  const MemoryLimit limit = memory_limit(config_.memory, device_, world_.local_size());
  log_warning("{}", memory_shortage(plan_, ranks_, device_bytes_,
                                    memory_suggestions(config_, decoder_, ranks_, load, limit)));
}

void MemoryReport::compare(std::int64_t communication_bytes) {
  is_done_ = true;
  if (device_.kind() != DeviceKind::kCuda || loads_.empty()) return;
  plan_ = {};
  const bool several = std::ranges::any_of(loads_, &MemoryLoad::several_micro_batches);
  const std::int64_t largest_num_rows =
      std::ranges::max(loads_, {}, &MemoryLoad::largest_num_rows).largest_num_rows;
  const std::int64_t largest_num_keys =
      std::ranges::max(loads_, {}, &MemoryLoad::largest_num_keys).largest_num_keys;
  for (MemoryLoad load : loads_) {
    load.several_micro_batches = several;  // the gradient buffer never shrinks
    load.largest_num_rows = largest_num_rows;
    load.largest_num_keys = largest_num_keys;
    MemoryPlan plan = planner_->plan(load);
    if (plan.total() > plan_.total()) plan_ = std::move(plan);
  }
  const MeasuredMemory measured = measure_memory(device_, communication_bytes);
  try {
    write(&measured);
  } catch (const Error& error) {
    log_warning("{}: it has no measured memory; training continues", error.message());
  }
  const auto planned = static_cast<double>(plan_.total());
  const double over = static_cast<double>(measured.allocated + measured.outside) - planned;
  const bool is_off = std::abs(over) > std::max(kTolerance * planned, kTolerableBytes);
  log(is_off ? LogLevel::kWarning : LogLevel::kInfo,
      "memory, measured against the plan of the same micro-batches: {:+.1f} %; {:.2f} GiB "
      "allocated at most, planned {:.2f} (most in the {}); {:.2f} GiB taken beside, planned "
      "{:.2f}; freed and kept by the allocator {:.2f} GiB",
      100 * over / planned, to_gibibytes(measured.allocated), to_gibibytes(plan_.allocated_bytes()),
      plan_.moment, to_gibibytes(measured.outside), to_gibibytes(plan_.outside_bytes()),
      to_gibibytes(measured.cached));
}

void MemoryReport::write(const MeasuredMemory* measured) const {
  if (world_.rank() != 0) return;
  nlohmann::ordered_json json = {{"allocated_bytes", to_json(plan_.allocated)},
                                 {"outside_bytes", to_json(plan_.outside)},
                                 {"moment", plan_.moment},
                                 {"planned_allocated_bytes", plan_.allocated_bytes()},
                                 {"planned_outside_bytes", plan_.outside_bytes()},
                                 {"device_bytes", device_bytes_}};
  if (measured != nullptr) {
    json["measured_allocated_bytes"] = measured->allocated;
    json["measured_outside_bytes"] = measured->outside;
    json["measured_cached_bytes"] = measured->cached;
  }
  write_text_atomically(config_.run.output + "/memory.json", json.dump(2) + "\n",
                        ErrorCategory::kConfig);
}

}  // namespace packtrain
