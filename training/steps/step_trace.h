// run.trace_steps: writes a timeline of some steps to the run folder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "framework/config/config.h"
#include "framework/device/device.h"
#include "framework/device/timeline.h"
#include "parallel/communicators/world.h"

namespace packtrain {

class StepTrace {
 public:
  // `num_steps`: number of steps of this process. Warns when none of them is to be traced. `device`
  // and `world` must outlive the object.
  StepTrace(const RunSection& run, std::int64_t num_steps, Device& device, World& world);

  // Steps of this process are counted from 1. Call begin() before the first traced one.
  bool begins_at(std::int64_t number) const { return is_on_ && number == first_; }
  bool ends_at(std::int64_t number) const { return is_on_ && number == last_; }
  // Collective. Warns when the device cannot be recorded; the trace then shows the host alone.
  void begin();
  // Waits for the device and writes run.output/trace/rank-N.json. Does nothing when no trace was
  // begun. A failure is a warning, and training continues.
  void end();

 private:
  void write(TimelineRecording& recording) const;

  bool is_on_;
  std::int64_t first_;
  std::int64_t last_;
  std::string folder_;
  Device& device_;
  World& world_;
  std::int64_t origin_ns_ = 0;
  std::optional<TimelineRecording> recording_;
};

}  // namespace packtrain
