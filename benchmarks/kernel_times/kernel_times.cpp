// libkernel_times.so: where a program's GPU time goes, kernel by kernel, without its help.
//   CUDA_INJECTION64_PATH=.../libkernel_times.so [KERNEL_TIMES_LAST_S=2] program ...
// The CUDA driver loads the library and calls InitializeInjection(). CUPTI then reports every
// kernel, copy and fill. At exit it sums the activities of the last KERNEL_TIMES_LAST_S seconds
// (all by default) by name. It prints these to stderr, with the time in which nothing ran.
#include <cupti.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "framework/device/cuda/cupti.h"
#include "framework/device/kernel_name.h"

namespace {

constexpr auto kKinds = std::to_array<CUpti_ActivityKind>(
    {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMCPY2,
     CUPTI_ACTIVITY_KIND_MEMSET});
constexpr std::size_t kMaxRows = 60;
constexpr std::size_t kMaxNameLength = 110;

struct Activity {
  std::string name;
  std::uint64_t begin_ns = 0;
  std::uint64_t end_ns = 0;
};

std::vector<Activity>& recorded() {
  static auto* made = new std::vector<Activity>;  // never destroyed: exit handlers still report
  return *made;
}

void complain(const std::string& failure) {
  if (!failure.empty()) std::fprintf(stderr, "kernel_times: %s\n", failure.c_str());
}

void add(std::string name, std::uint64_t begin_ns, std::uint64_t end_ns) {
  recorded().push_back({std::move(name), begin_ns, end_ns});
}

void add_record(const CUpti_Activity& record) {
  switch (record.kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      const auto& kernel = reinterpret_cast<const CUpti_ActivityKernel10&>(record);
      add(packtrain::readable_kernel_name(kernel.name).substr(0, kMaxNameLength), kernel.start,
          kernel.end);
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const auto& copy = reinterpret_cast<const CUpti_ActivityMemcpy6&>(record);
      add("[copy]", copy.start, copy.end);
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY2: {
      const auto& copy = reinterpret_cast<const CUpti_ActivityMemcpyPtoP4&>(record);
      add("[copy between GPUs]", copy.start, copy.end);
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
      const auto& fill = reinterpret_cast<const CUpti_ActivityMemset4&>(record);
      add("[fill]", fill.start, fill.end);
      break;
    }
    default:
      break;
  }
}

struct Total {
  std::uint64_t ns = 0;
  std::uint64_t count = 0;
};

// Time in which at least one activity ran. Sorts activities by begin.
std::uint64_t busy_ns(std::vector<Activity>& activities) {
  std::ranges::sort(activities, {}, &Activity::begin_ns);
  std::uint64_t busy = 0;
  std::uint64_t until = 0;
  for (const Activity& a : activities) {
    if (a.end_ns <= until) continue;
    busy += a.end_ns - std::max(a.begin_ns, until);
    until = a.end_ns;
  }
  return busy;
}

void keep_last(std::vector<Activity>& activities) {
  const char* seconds = std::getenv("KERNEL_TIMES_LAST_S");
  if (seconds == nullptr || activities.empty()) return;
  const std::uint64_t end = std::ranges::max(activities, {}, &Activity::end_ns).end_ns;
  const auto window = static_cast<std::uint64_t>(std::strtod(seconds, nullptr) * 1e9);
  std::erase_if(activities, [&](const Activity& a) { return a.begin_ns + window < end; });
}

void report() {
  complain(packtrain::stop_cupti(kKinds));
  std::vector<Activity>& activities = recorded();
  keep_last(activities);
  if (activities.empty()) return;
  const std::uint64_t busy = busy_ns(activities);
  const std::uint64_t first = activities.front().begin_ns;
  const std::uint64_t last = std::ranges::max(activities, {}, &Activity::end_ns).end_ns;
  std::map<std::string, Total> totals;
  for (const Activity& a : activities) {
    totals[a.name].ns += a.end_ns - a.begin_ns;
    ++totals[a.name].count;
  }
  std::vector<std::pair<std::string, Total>> rows(totals.begin(), totals.end());
  std::ranges::sort(rows, [](const auto& a, const auto& b) { return a.second.ns > b.second.ns; });
  const double span_ms = static_cast<double>(last - first) / 1e6;
  std::fprintf(stderr, "kernel_times: %.1f ms, nothing ran in %.1f ms of them, %zu activities\n",
               span_ms, span_ms - static_cast<double>(busy) / 1e6, activities.size());
  std::fprintf(stderr, "%10s %6s %8s %10s  name\n", "ms", "%", "count", "us each");
  for (std::size_t i = 0; i < std::min(rows.size(), kMaxRows); ++i) {
    const Total& t = rows[i].second;
    const double ms = static_cast<double>(t.ns) / 1e6;
    std::fprintf(stderr, "%10.2f %6.2f %8llu %10.1f  %s\n", ms, 100.0 * ms / span_ms,
                 static_cast<unsigned long long>(t.count), 1e3 * ms / static_cast<double>(t.count),
                 rows[i].first.c_str());
  }
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): the name that the driver looks for
extern "C" int InitializeInjection() {
  const std::string failure = packtrain::start_cupti(kKinds, add_record);
  complain(failure);
  if (failure.empty()) std::atexit(report);
  return 1;
}
