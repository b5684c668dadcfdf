#include "framework/device/range_recorder.h"

#include <chrono>
#include <mutex>
#include <optional>
#include <utility>

namespace packtrain {
namespace {

struct OpenRange {
  RecordedRange range;
  bool handed_over = false;
  bool has_parts = false;
};

// Ranges of one thread.
struct ThreadRanges {
  std::string row = "thread";
  std::vector<OpenRange> open;
};

ThreadRanges& mine() {
  thread_local ThreadRanges ranges;
  return ranges;
}

struct Recorder {
  std::atomic<bool> recording = false;
  std::atomic<std::uint64_t> next_id = 1;
  std::mutex mutex;  // guards the members below
  std::uint64_t first_id = 1;
  std::vector<RecordedRange> ranges;
  std::unique_ptr<ActivityRecorder> device;
};

Recorder& recorder() {
  static Recorder made;
  return made;
}

// The same clock as CUPTI's records (CLOCK_REALTIME on Linux), so that no conversion is needed.
std::int64_t now_ns() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

bool is_shown(const OpenRange& open) {
  if (open.handed_over && !open.has_parts) return false;
  const std::int64_t took_ns = open.range.end_ns - open.range.begin_ns;
  return open.range.kind != RangeKind::kThreadWait || took_ns >= kShortestWaitNs;
}

}  // namespace

RangeScope::RangeScope(std::string_view name, const RangeTraits& traits) {
  Recorder& to = recorder();
  if (!to.recording.load(std::memory_order_relaxed) || name.empty()) return;
  ThreadRanges& thread = mine();
  id_ = to.next_id.fetch_add(1);
  OpenRange open;
  open.range.id = id_;
  open.range.parent = thread.open.empty() ? 0 : thread.open.back().range.id;
  open.range.kind = traits.kind;
  open.range.name = name;
  open.range.row = traits.row != nullptr ? traits.row : thread.row;
  open.range.awaited = traits.awaited;
  {
    const std::lock_guard lock(to.mutex);
    if (to.device != nullptr) to.device->begin_range(id_);
  }
  open.range.begin_ns = now_ns();
  thread.open.push_back(std::move(open));
}

RangeScope::~RangeScope() {
  if (id_ == 0) return;
  ThreadRanges& thread = mine();
  OpenRange open = std::move(thread.open.back());
  thread.open.pop_back();
  open.range.end_ns = now_ns();
  Recorder& to = recorder();
  const std::lock_guard lock(to.mutex);
  if (to.device != nullptr) to.device->end_range();
  if (!to.recording || id_ < to.first_id || !is_shown(open)) return;
  if (!thread.open.empty()) thread.open.back().has_parts = true;
  to.ranges.push_back(std::move(open.range));
}

const char* wait_name(StreamKind awaited) {
  switch (awaited) {
    case StreamKind::kCompute:
      return "wait for compute";
    case StreamKind::kGather:
      return "wait for gather";
    case StreamKind::kReduce:
      return "wait for reduce";
    case StreamKind::kCopy:
      break;
  }
  return "wait for copy";
}

std::string hand_over_range() {
  if (!ranges_are_recorded() || mine().open.empty()) return {};
  OpenRange& innermost = mine().open.back();
  innermost.handed_over = true;
  return innermost.range.name;
}

void set_thread_row(std::string row) {
  mine().row = std::move(row);
}

bool ranges_are_recorded() {
  return recorder().recording.load(std::memory_order_relaxed);
}

void start_ranges(std::unique_ptr<ActivityRecorder> device) {
  Recorder& to = recorder();
  const std::lock_guard lock(to.mutex);
  to.ranges.clear();
  to.first_id = to.next_id;
  to.device = std::move(device);
  to.recording = true;
}

Recorded stop_ranges() {
  Recorder& to = recorder();
  const std::lock_guard lock(to.mutex);
  to.recording = false;
  return {std::exchange(to.ranges, {}), std::exchange(to.device, nullptr)};
}

}  // namespace packtrain
