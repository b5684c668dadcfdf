#include "training/steps/step_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/file.h"
#include "framework/core/logging.h"
#include "framework/device/activity_recorder.h"
#include "framework/device/chrome_trace.h"

namespace packtrain {
namespace {

// The origin is before the first event even if a host's clock is slightly later than rank 0's.
constexpr auto kLead = std::chrono::milliseconds(10);

// The origin of the trace, the same on every rank. Collective.
std::int64_t agreed_origin_ns(World& world) {
  const auto origin = std::chrono::system_clock::now().time_since_epoch() - kLead;
  std::int64_t ns = std::chrono::duration_cast<std::chrono::nanoseconds>(origin).count();
  world.control().broadcast(&ns, sizeof(ns), 0, nullptr);
  return ns;
}

std::unique_ptr<ActivityRecorder> record_device(Device& device) {
  try {
    return device.record_activities();
  } catch (const Error& error) {
    log_warning("run.trace_steps: the trace will show the host alone: {}", error.what());
    return nullptr;
  }
}

}  // namespace

StepTrace::StepTrace(const RunSection& run, std::int64_t num_steps, Device& device, World& world)
    : is_on_(run.trace_steps > 0 && run.trace_first <= num_steps),
      first_(run.trace_first),
      last_(std::min(run.trace_first + run.trace_steps - 1, num_steps)),
      folder_((std::filesystem::path(run.output) / "trace").string()),
      device_(device),
      world_(world) {
  if (run.trace_steps == 0 || is_on_) return;
  log_warning("run.trace_first is {}, but only {} steps are to be made: none will be traced",
              run.trace_first, num_steps);
}

void StepTrace::begin() {
  origin_ns_ = agreed_origin_ns(world_);
  // On the CPU the calling thread is the compute stream.
  const bool is_cpu = device_.kind() == DeviceKind::kCpu;
  recording_.emplace(record_device(device_), is_cpu ? stream_name(StreamKind::kCompute) : "host");
}

void StepTrace::end() {
  if (!recording_) return;
  try {
    write(*recording_);
  } catch (const Error& error) {
    log_warning("run.trace_steps: no trace: {}", error.what());
  }
  recording_.reset();
}

void StepTrace::write(TimelineRecording& recording) const {
  const std::vector<TimelineSpan> spans = recording.finish();
  const std::string name =
      fmt::format("rank {} on {}, {}", world_.rank(), world_.host(), device_.name());
  const std::string path = fmt::format("{}/rank-{}.json", folder_, world_.rank());
  make_folders(folder_, ErrorCategory::kInternal);
  write_text_atomically(path, chrome_trace(spans, {world_.rank(), name, origin_ns_}),
                        ErrorCategory::kInternal);
  log_info("steps {} to {} traced in {}", first_, last_, folder_);
}

}  // namespace packtrain
