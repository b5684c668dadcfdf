#include <ATen/Parallel.h>
#include <fcntl.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "framework/device/activity_recorder.h"
#include "framework/device/cpu/cpu_stream.h"
#include "framework/device/device.h"
#include "framework/device/host_memory.h"

namespace packtrain {
namespace {

constexpr std::size_t kAlignment = 64;  // a cache line

// Returns freed memory to the system and resets the peak of the resident set (man 5 proc:
// clear_refs). Without permission, the peak stays that of the whole process.
void forget_peak_memory() {
  malloc_trim(0);
  const int file = ::open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
  if (file < 0) return;
  [[maybe_unused]] const ssize_t written = ::write(file, "5", 1);
  ::close(file);
}

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(const DeviceOptions& options) : options_(options) {
    if (options.num_threads > 0) at::set_num_threads(options.num_threads);
    forget_peak_memory();
  }

  DeviceKind kind() const override { return DeviceKind::kCpu; }
  int index() const override { return 0; }
  std::string name() const override { return "cpu"; }

  std::unique_ptr<Stream> make_stream(StreamKind kind) override {
    const RandomDelay delay(options_, num_streams_++);
    if (kind == StreamKind::kCompute) return std::make_unique<CpuComputeStream>(failure_, delay);
    return std::make_unique<CpuThreadStream>(kind, failure_, delay);
  }

  std::unique_ptr<Event> make_event() override { return std::make_unique<CpuEvent>(); }

  HostBuffer allocate_host(std::size_t bytes) override {
    if (bytes == 0) return {};
    const std::size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    std::shared_ptr<void> owner(std::aligned_alloc(kAlignment, rounded), std::free);
    if (!owner) throw host_memory_error("host memory", bytes);
    return {static_cast<std::byte*>(owner.get()), bytes, std::move(owner)};
  }

  std::size_t peak_memory_bytes() const override {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<std::size_t>(usage.ru_maxrss) * 1024;  // Linux counts KiB
  }

  MemoryUse memory_use() const override {
    const auto resident = static_cast<std::size_t>(resident_memory_bytes());
    return {.allocated_bytes = resident, .reserved_bytes = resident};
  }

  std::size_t total_memory_bytes() const override {
    const std::int64_t pages = sysconf(_SC_PHYS_PAGES);
    return pages > 0 ? static_cast<std::size_t>(pages * sysconf(_SC_PAGESIZE)) : 0;
  }

  std::size_t available_memory_bytes() const override {
    return static_cast<std::size_t>(host_available_memory_bytes());
  }

  double peak_tflops() const override { return 0; }
  std::unique_ptr<ActivityRecorder> record_activities() override { return nullptr; }

 private:
  DeviceOptions options_;
  std::uint64_t num_streams_ = 0;
  std::shared_ptr<CpuFailure> failure_ = std::make_shared<CpuFailure>();
};

}  // namespace

std::unique_ptr<Device> make_cpu_device(const DeviceOptions& options) {
  return std::make_unique<CpuDevice>(options);
}

}  // namespace packtrain
