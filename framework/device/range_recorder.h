// Ranges of host threads while a timeline is recorded; TraceRange and the streams make them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "framework/device/activity_recorder.h"
#include "framework/device/device.h"

namespace packtrain {

enum class RangeKind : std::uint8_t {
  kWork,
  kThreadWait,    // the thread stood still
  kStreamRecord,  // an event is given to a device's stream
  kStreamWait,    // a device's stream is told to wait
};

struct RecordedRange {
  std::uint64_t id = 0;      // ascending in the order of beginnings, from 1
  std::uint64_t parent = 0;  // the range around it, 0 = none
  RangeKind kind = RangeKind::kWork;
  std::string name;
  std::string row;            // of the thread; kStreamRecord, kStreamWait: of the stream
  std::int64_t begin_ns = 0;  // wall clock, since 1970
  std::int64_t end_ns = 0;
  std::uint64_t awaited = 0;  // kStreamWait: the range of the event's latest record, 0 = none
};

// What a range is, besides its name.
struct RangeTraits {
  RangeKind kind = RangeKind::kWork;
  const char* row = nullptr;  // null: the thread's
  std::uint64_t awaited = 0;
};

// A range of the calling thread, from here to the end of the scope. Nothing but a look at a flag
// while nothing is recorded, or when `name` is empty.
class RangeScope {
 public:
  explicit RangeScope(std::string_view name, const RangeTraits& traits = {});
  ~RangeScope();
  RangeScope(const RangeScope&) = delete;
  RangeScope& operator=(const RangeScope&) = delete;

  std::uint64_t id() const { return id_; }  // 0: not recorded

 private:
  std::uint64_t id_ = 0;
};

const char* wait_name(StreamKind awaited);  // "wait for gather"

// The calling thread's innermost range, whose work another thread is going to do under this name:
// it is not shown here unless other ranges lie in it. Empty while nothing is recorded.
std::string hand_over_range();

// Names the row of the calling thread, from now on.
void set_thread_row(std::string row);

bool ranges_are_recorded();
// Forgets all ranges and records from now on; `device` (or null) is told of them.
void start_ranges(std::unique_ptr<ActivityRecorder> device);

struct Recorded {
  std::vector<RecordedRange> ranges;  // those that have ended, in the order of their ends
  std::unique_ptr<ActivityRecorder> device;
};
Recorded stop_ranges();

}  // namespace packtrain
