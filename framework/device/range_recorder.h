// Ranges of host threads while a timeline is recorded. TraceRange and the streams create them.
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
  kThreadWait,    // the thread waited
  kStreamRecord,  // an event was recorded on a device's stream
  kStreamWait,    // a wait was added to a device's stream
};

struct RecordedRange {
  std::uint64_t id = 0;      // ascending by begin, from 1
  std::uint64_t parent = 0;  // the enclosing range, 0 = none
  RangeKind kind = RangeKind::kWork;
  std::string name;
  std::string row;            // of the thread; for kStreamRecord and kStreamWait of the stream
  std::int64_t begin_ns = 0;  // wall clock, since 1970
  std::int64_t end_ns = 0;
  std::uint64_t awaited = 0;  // kStreamWait: the range of the event's latest record, 0 = none
};

// A timeline shows no shorter waits: they are the cost of the check itself.
inline constexpr std::int64_t kShortestWaitNs = 1000;

// Properties of a range in addition to its name.
struct RangeTraits {
  RangeKind kind = RangeKind::kWork;
  const char* row = nullptr;  // null: the row of the thread
  std::uint64_t awaited = 0;
};

// A range of the calling thread until the end of the scope. It only reads a flag while nothing is
// recorded, or when `name` is empty.
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

// Returns the name of the calling thread's innermost range, for work that another thread does under
// this name. The range is then hidden here unless it encloses other ranges. Empty while nothing is
// recorded.
std::string hand_over_range();

// Sets the row name of the calling thread.
void set_thread_row(std::string row);

bool ranges_are_recorded();
// Clears all ranges and starts recording. `device` (can be null) receives the begin and end of
// ranges.
void start_ranges(std::unique_ptr<ActivityRecorder> device);

struct Recorded {
  std::vector<RecordedRange> ranges;  // completed ranges, in the order of their ends
  std::unique_ptr<ActivityRecorder> device;
};
Recorded stop_ranges();

}  // namespace packtrain
