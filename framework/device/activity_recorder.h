// Records what a device executed, with the device's profiler. It is the part of a timeline
// (timeline.h) that host threads do not see.
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
  std::uint64_t order = 0;  // of the launching call, among all calls of the process
  std::uint64_t range = 0;  // the innermost range of the launching call, 0 = none
  TimelineDetails details;
};

// A call of the host to the device's library.
struct DeviceCall {
  std::string name;
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  std::uint64_t range = 0;
};

struct DeviceActivities {
  std::vector<DeviceActivity> activities;
  std::vector<DeviceCall> long_calls;  // calls during which the host thread waited
  std::map<std::uint64_t, std::uint64_t> order_of_range;  // of the first call in each range
};

// Records from the constructor to finish() or to the destructor.
class ActivityRecorder {
 public:
  virtual ~ActivityRecorder() = default;
  // Calls of the calling thread belong to range `id` until the matching end_range().
  virtual void begin_range(std::uint64_t id) = 0;
  virtual void end_range() = 0;
  virtual DeviceActivities finish() = 0;  // waits for the device
};

}  // namespace packtrain
