// A device, its streams and its events behind one small interface; no CUDA type in sight.
// CUDA: streams and events are CUDA's. CPU: a stream is a thread with a queue (the compute stream
// is the calling thread itself), an event is an event, so that the schedule of parallel/sharding
// runs for real, with real races, on a machine without a GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace packtrain {

enum class DeviceKind { kCpu, kCuda };
enum class StreamKind { kCompute, kGather, kReduce, kCopy };
const char* stream_name(StreamKind kind);  // "compute", "gather", "reduce", "copy"

class ActivityRecorder;  // activity_recorder.h

// What a communicator or kernel needs of a stream: cudaStream_t on CUDA, null on the CPU.
using StreamHandle = void*;

// A point in a stream's work. Like CUDA's: a wait refers to the latest record() that the host had
// called before the wait was called, and is satisfied at once when there was none.
class Event {
 public:
  virtual ~Event() = default;
  virtual void synchronize() = 0;  // the host waits for the latest record()
};

// How long a stream stood still in wait(), by the stream that had recorded the event.
struct WaitedTime {
  double gather_s = 0;
  double reduce_s = 0;
  double other_s = 0;

  double total_s() const { return gather_s + reduce_s + other_s; }
  void add(StreamKind recorded_by, double seconds);
};

class Stream {
 public:
  virtual ~Stream() = default;

  // Gives `work` to the stream. CUDA: called at once with this stream current, what it launches is
  // asynchronous. CPU: called later on the stream's thread (compute stream: at once, on this one).
  // An exception on a stream's thread stops all work of the device's streams (events still
  // complete, so nothing hangs) and surfaces at the host's next run, wait and synchronize() on any
  // of them, and at every later one.
  virtual void run(std::function<void(StreamHandle)> work) = 0;
  virtual void record(Event& event) = 0;  // the event completes when all work given so far is done
  virtual void wait(const Event& event) = 0;  // work given from now on starts after the event
  virtual void synchronize() = 0;             // the host waits until the stream is empty
  // Waits of a compute stream since the last call, of those that are over (on CUDA by timing
  // events, so the last few come with a later call). Nothing for other streams.
  virtual WaitedTime take_waited() { return {}; }
};

// Bytes the device can copy from or to asynchronously (pinned on CUDA, plain on the CPU).
struct HostBuffer {
  std::byte* data = nullptr;
  std::size_t size = 0;
  std::shared_ptr<void> owner;
};

struct DeviceOptions {
  std::int64_t stream_delay_us =
      0;  // CPU: random delay up to this before each piece of queued work
  std::uint64_t delay_seed = 0;
  int num_threads = 0;  // CPU: threads of tensor operators; 0 leaves the library's choice
};

// What is in use now. `reserved` is what the allocator of tensors has taken from the device for
// them, freed memory that it keeps included; on the CPU both are the resident set.
struct MemoryUse {
  std::size_t allocated_bytes = 0;
  std::size_t reserved_bytes = 0;
};

class Device {
 public:
  virtual ~Device() = default;

  virtual DeviceKind kind() const = 0;
  virtual int index() const = 0;         // CUDA ordinal; 0 on the CPU
  virtual std::string name() const = 0;  // "NVIDIA H200", "cpu"
  virtual std::unique_ptr<Stream> make_stream(StreamKind kind) = 0;
  virtual std::unique_ptr<Event> make_event() = 0;
  virtual HostBuffer allocate_host(std::size_t bytes) = 0;
  virtual std::size_t peak_memory_bytes()
      const = 0;  // CUDA allocator's peak since this device was made; CPU: peak resident
                  // set since then, with what the process kept of earlier work
  virtual MemoryUse memory_use() const = 0;
  virtual std::size_t total_memory_bytes() const = 0;  // of the GPU, or of the host; 0 = unknown
  // What this process could still allocate: of the GPU, or of the host (shared by all its ranks).
  virtual std::size_t available_memory_bytes() const = 0;
  virtual double peak_tflops() const = 0;  // dense bf16 peak of a known GPU; 0 = unknown
  // From now on records what the streams execute. Null on the CPU, whose streams are threads that
  // the timeline sees by itself. Throws Error(kDevice) when another profiler is at work.
  virtual std::unique_ptr<ActivityRecorder> record_activities() = 0;
};

std::unique_ptr<Device> make_cpu_device(const DeviceOptions& options);
// Throws Error(kDevice) when built without CUDA or when there is no such GPU.
std::unique_ptr<Device> make_cuda_device(int index, const DeviceOptions& options);
int num_cuda_devices();  // 0 without a driver or when built without CUDA; never throws
// All the memory of a GPU, told without opening it; 0 where there is none.
std::size_t cuda_memory_bytes(int index);

}  // namespace packtrain
