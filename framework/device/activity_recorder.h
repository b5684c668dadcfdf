// What a device executed, as its profiler tells it; the part of a timeline (timeline.h) that no
// host thread sees.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace packtrain {

using TimelineDetails = std::vector<std::pair<std::string, std::string>>;

// A kernel, copy or fill on a stream.
struct DeviceActivity {
  std::string row;  // the stream: "compute", "gather", ...
  std::string name;
  std::string category;       // "kernel", "copy", "fill"
  std::int64_t begin_ns = 0;  // wall clock, since 1970
  std::int64_t end_ns = 0;
  std::uint64_t order = 0;  // of the call that launched it, among all calls of the process
  std::uint64_t range = 0;  // the innermost range of that call, 0 = none
  TimelineDetails details;
};

// A call of the host into the device's library.
struct DeviceCall {
  std::string name;
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  std::uint64_t range = 0;
};

struct DeviceActivities {
  std::vector<DeviceActivity> activities;
  std::vector<DeviceCall> long_calls;                     // that held the host up
  std::map<std::uint64_t, std::uint64_t> order_of_range;  // of the first call in each range
};

// Records from its making to finish(), or to its end.
class ActivityRecorder {
 public:
  virtual ~ActivityRecorder() = default;
  // The calling thread's calls belong to range `id` until the end_range() that goes with it.
  virtual void begin_range(std::uint64_t id) = 0;
  virtual void end_range() = 0;
  virtual DeviceActivities finish() = 0;  // waits for the device
};

}  // namespace packtrain
