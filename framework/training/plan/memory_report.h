// A run's memory as planned, told before its first step, and as measured after its second: in the
// log, and in run.output/memory.json.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "framework/config/config.h"
#include "framework/device/device.h"
#include "framework/training/plan/memory_plan.h"
#include "models/decoder_config.h"
#include "parallel/world.h"

namespace packtrain {

// What a GPU says; bytes.
struct MeasuredMemory {
  std::int64_t allocated = 0;  // at most: tensors and communication memory
  std::int64_t outside = 0;    // now: what else the driver says is in use
  std::int64_t cached = 0;     // now: freed memory that the allocator keeps
};

// `communication_bytes`: what tensors lie in that the device's allocator does not know of.
MeasuredMemory measure_memory(const Device& device, std::int64_t communication_bytes);

class MemoryReport {
 public:
  // On a device that nothing of the run is on yet. It and `world` must outlive the report.
  MemoryReport(const Config& config, const DecoderConfig& decoder, const Device& device,
               const World& world);

  // Before the first step. Rank 0 logs the table and writes memory.json. `shard_size`: ranks that
  // share one copy of the model's state. `gather_slots`: what `auto` of that key came to.
  void log_plan(const MemoryLoad& load, int shard_size, int gather_slots);

  // A micro-batch that the device was given, until they are held against the measurement.
  void add(const MemoryLoad& load) { loads_.push_back(load); }
  bool is_done() const { return is_done_; }
  const MemoryPlan& plan() const { return plan_; }  // empty before log_plan()

  // After the second step, GPU only: holds what was measured against the plan of the micro-batches
  // added. A line in the log, a warning where they differ by more than 3 % (and 256 MiB).
  void compare(std::int64_t communication_bytes);

 private:
  void warn_of_shortage(const MemoryLoad& load) const;
  void write(const MeasuredMemory* measured) const;

  Config config_;
  DecoderConfig decoder_;
  const Device& device_;
  const World& world_;
  MemoryRanks ranks_;
  std::int64_t device_bytes_ = 0;  // GPU: all its memory
  std::unique_ptr<MemoryPlanner> planner_;
  MemoryPlan plan_;
  std::vector<MemoryLoad> loads_;
  bool is_done_ = false;
};

}  // namespace packtrain
