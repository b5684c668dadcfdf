#include "framework/device/timeline_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <string>
#include <tuple>
#include <utility>

namespace packtrain {
namespace {

// such as a launch under the end of the previous kernel
constexpr std::int64_t kShortOverlapNs = 5000;

using RangesById = std::map<std::uint64_t, const RecordedRange*>;

struct Interval {
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
};

const RecordedRange* find(const RangesById& ranges, std::uint64_t id) {
  const auto found = ranges.find(id);
  return found == ranges.end() ? nullptr : found->second;
}

bool is_of_thread(const RecordedRange& range) {
  return range.kind == RangeKind::kWork || range.kind == RangeKind::kThreadWait;
}

void add_threads(const RangesById& ranges, const std::vector<DeviceCall>& calls,
                 std::vector<TimelineSpan>& spans) {
  for (const auto& [id, range] : ranges) {
    if (!is_of_thread(*range)) continue;
    const bool works = range->kind == RangeKind::kWork;
    spans.push_back(
        {range->row, range->name, works ? "range" : "wait", range->begin_ns, range->end_ns, {}});
  }
  for (const DeviceCall& call : calls) {
    const RecordedRange* range = find(ranges, call.range);
    if (range == nullptr || !is_of_thread(*range)) continue;
    spans.push_back({range->row, call.name, "call", call.begin_ns, call.end_ns, {}});
  }
}

// Distributes the activities of one stream, in order of begin, over as many rows as overlaps need.
// Returns the row index of each activity, from 0.
std::vector<int> part_overlapping(std::vector<DeviceActivity*>& activities) {
  std::ranges::sort(activities, {}, &DeviceActivity::begin_ns);
  std::vector<Interval> last;  // [rows]
  std::vector<int> rows;
  for (DeviceActivity* activity : activities) {
    const std::int64_t took = activity->end_ns - activity->begin_ns;
    std::size_t row = 0;
    for (; row < last.size(); ++row) {
      const std::int64_t overlap = last[row].end_ns - activity->begin_ns;
      const std::int64_t shorter = std::min(took, last[row].end_ns - last[row].begin_ns);
      if (overlap <= std::max(shorter / 2, std::min(kShortOverlapNs, took - 1))) break;
    }
    if (row == last.size()) last.emplace_back();
    activity->begin_ns = std::max(activity->begin_ns, last[row].end_ns);
    last[row] = {activity->begin_ns, activity->end_ns};
    rows.push_back(static_cast<int>(row));
  }
  return rows;
}

class DeviceLayout {
 public:
  DeviceLayout(const RangesById& ranges, DeviceActivities& device, std::vector<TimelineSpan>& spans)
      : ranges_(ranges), device_(device), spans_(spans) {}

  void add() {
    std::map<std::string, std::vector<DeviceActivity*>> streams;
    for (DeviceActivity& activity : device_.activities) streams[activity.row].push_back(&activity);
    for (auto& [name, activities] : streams) add_stream(name, activities);
    for (auto& [name, activities] : streams) {
      std::ranges::sort(activities, {}, &DeviceActivity::order);
    }
    add_waits(streams);
  }

 private:
  void add_stream(const std::string& name, std::vector<DeviceActivity*>& activities) {
    const std::vector<int> rows = part_overlapping(activities);
    add_projections(name, activities, rows);
    for (std::size_t a = 0; a < activities.size(); ++a) {
      const DeviceActivity& activity = *activities[a];
      TimelineSpan span{name,
                        activity.name,
                        activity.category,
                        activity.begin_ns,
                        activity.end_ns,
                        activity.details};
      if (rows[a] > 0) span.row = fmt::format("{} {}", name, rows[a] + 1);
      const RecordedRange* range = find(ranges_, activity.range);
      if (range != nullptr) span.details.emplace_back("range", range->name);
      spans_.push_back(std::move(span));
    }
  }

  // The ranges that launched the stream's activities, outer ones first.
  void add_projections(const std::string& name, const std::vector<DeviceActivity*>& activities,
                       const std::vector<int>& rows) {
    std::map<std::uint64_t, Interval> projected;
    for (std::size_t a = 0; a < activities.size(); ++a) {
      if (rows[a] > 0) continue;
      const DeviceActivity& activity = *activities[a];
      const RecordedRange* range = find(ranges_, activity.range);
      for (; range != nullptr; range = find(ranges_, range->parent)) {
        const auto [at, is_new] =
            projected.try_emplace(range->id, activity.begin_ns, activity.end_ns);
        at->second.end_ns = activity.end_ns;
      }
    }
    for (const auto& [id, interval] : projected) {
      spans_.push_back(
          {name, find(ranges_, id)->name, "range", interval.begin_ns, interval.end_ns, {}});
    }
  }

  using Streams = std::map<std::string, std::vector<DeviceActivity*>>;  // by order

  void add_waits(const Streams& streams) {
    std::map<std::string, std::int64_t> stood_until;
    for (const auto& [id, wait] : ranges_) {
      const auto stream = streams.find(wait->row);
      if (wait->kind != RangeKind::kStreamWait || stream == streams.end()) continue;
      const auto& activities = stream->second;
      const auto next = first_after(activities, order_of(id));
      if (next == activities.begin() || next == activities.end()) continue;
      std::int64_t& stood = stood_until[wait->row];
      const std::int64_t begin = std::max((*std::prev(next))->end_ns, stood);
      const std::int64_t end = std::min((*next)->begin_ns, end_of_awaited(*wait, streams));
      if (end - begin < kShortestWaitNs) continue;
      spans_.push_back({wait->row, wait->name, "wait", begin, end, {}});
      stood = end;
    }
  }

  std::int64_t end_of_awaited(const RecordedRange& wait, const Streams& streams) const {
    const RecordedRange* record = find(ranges_, wait.awaited);
    if (record == nullptr) return 0;
    const auto stream = streams.find(record->row);
    if (stream == streams.end()) return 0;
    const auto end = first_after(stream->second, order_of(record->id));
    return end == stream->second.begin() ? 0 : (*std::prev(end))->end_ns;
  }

  static std::vector<DeviceActivity*>::const_iterator first_after(
      const std::vector<DeviceActivity*>& activities, std::uint64_t order) {
    return std::ranges::upper_bound(activities, order, {}, &DeviceActivity::order);
  }

  // 0 for a range without calls, so that it is sorted before all others.
  std::uint64_t order_of(std::uint64_t range) const {
    const auto found = device_.order_of_range.find(range);
    return found == device_.order_of_range.end() ? 0 : found->second;
  }

  const RangesById& ranges_;
  DeviceActivities& device_;
  std::vector<TimelineSpan>& spans_;
};

}  // namespace

std::vector<TimelineSpan> lay_out(std::span<const RecordedRange> ranges, DeviceActivities device) {
  RangesById by_id;
  for (const RecordedRange& range : ranges) by_id[range.id] = &range;
  std::vector<TimelineSpan> spans;
  add_threads(by_id, device.long_calls, spans);
  DeviceLayout(by_id, device, spans).add();
  std::ranges::stable_sort(spans, [](const TimelineSpan& a, const TimelineSpan& b) {
    return std::tie(a.row, a.begin_ns, b.end_ns) < std::tie(b.row, b.begin_ns, a.end_ns);
  });
  return spans;
}

}  // namespace packtrain
