// Logs a run's planned memory before its first step and the measured memory after its second.
// Writes both to run.output/memory.json.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "framework/config/config.h"
#include "framework/device/device.h"
#include "models/layers/decoder_config.h"
#include "parallel/communicators/process_mesh.h"
#include "parallel/communicators/world.h"
#include "training/plan/memory_plan.h"

namespace packtrain {

// Measured by the GPU's allocator and driver, in bytes.
struct MeasuredMemory {
  std::int64_t allocated = 0;  // peak: tensors and communication memory
  std::int64_t outside = 0;    // now: other memory that the driver reports as used
  std::int64_t cached = 0;     // now: freed memory that the allocator keeps
};

// `communication_bytes`: memory of tensors that the device's allocator does not manage.
MeasuredMemory measure_memory(const Device& device, std::int64_t communication_bytes);

class MemoryReport {
 public:
  // Must be made before the run allocates anything on the device. `device` and `world` must outlive
  // the report.
  MemoryReport(const Config& config, const DecoderConfig& decoder, const Device& device,
               const World& world);

  // Call it before the first step. Rank 0 logs the table and writes memory.json. `resolved`: the
  // configuration that the model has.
  void log_plan(const MemoryLoad& load, const ProcessMesh& mesh, const Config& resolved);

  // Adds a micro-batch that the device was given. compare() uses all of them.
  void add(const MemoryLoad& load) { loads_.push_back(load); }
  bool is_done() const { return is_done_; }
  const MemoryPlan& plan() const { return plan_; }  // empty before log_plan()

  // After the second step, GPU only: compares the measurement with the plan of the added
  // micro-batches. Logs a line, and a warning when they differ by more than 3 % and 256 MiB.
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
