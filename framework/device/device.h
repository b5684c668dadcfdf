// A device with its streams and events, without CUDA types in the interface. On CUDA, streams and
// events are CUDA's. On the CPU, a stream is a thread with a queue, and the compute stream is the
// calling thread. So the schedule of parallel/sharding runs with real concurrency without a GPU.
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

// The stream handle for communicators and kernels: cudaStream_t on CUDA, null on the CPU.
using StreamHandle = void*;

// A point in a stream's work, as in CUDA. A wait refers to the latest record() before the wait was
// called. Without one it does not wait.
class Event {
 public:
  virtual ~Event() = default;
  virtual void synchronize() = 0;  // the host waits for the latest record()
};

// How long a stream waited, by the stream that had recorded the event.
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

  // Adds `work` to the stream. On CUDA it is called immediately with this stream current, and the
  // kernels that it launches are asynchronous. On the CPU it is called later on the stream's
  // thread, or immediately for the compute stream.
  // An exception on a stream's thread stops all work of the device's streams. Events still
  // complete, so that nothing hangs. Every later run, wait and synchronize() of the host on any of
  // them throws the exception.
  virtual void run(std::function<void(StreamHandle)> work) = 0;
  virtual void record(Event& event) = 0;      // completes when all work added so far is done
  virtual void wait(const Event& event) = 0;  // later work starts after the event
  virtual void synchronize() = 0;             // the host waits until the stream is empty
  // Completed waits of a compute stream since the last call. CUDA measures them with timing events,
  // so the latest can be part of a later call. Zero for other streams.
  virtual WaitedTime take_waited() { return {}; }
};

// Host memory for asynchronous copies from and to the device: pinned on CUDA, plain on the CPU.
struct HostBuffer {
  std::byte* data = nullptr;
  std::size_t size = 0;
  std::shared_ptr<void> owner;
  bool is_zeroed = false;  // all bytes were 0 when it was allocated
};

struct DeviceOptions {
  std::int64_t stream_delay_us =
      0;  // CPU: random delay up to this before each piece of queued work
  std::uint64_t delay_seed = 0;
  int num_threads = 0;  // CPU: threads of tensor operators; 0: default of the library
};

// Memory in use at present. `reserved_bytes` is all memory that the allocator of tensors holds,
// with freed memory that it keeps. On the CPU both are the resident set.
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
  virtual std::size_t total_memory_bytes() const = 0;  // of the GPU or of the host; 0 = unknown
  // Memory that this process could still allocate, of the GPU or of the host (shared by its ranks).
  virtual std::size_t available_memory_bytes() const = 0;
  virtual double peak_tflops() const = 0;  // dense bf16 peak of a known GPU; 0 = unknown
  // Records what the streams execute from now on. Null on the CPU, whose streams are threads with
  // ranges of their own. Throws Error(kDevice) when another profiler is active.
  virtual std::unique_ptr<ActivityRecorder> record_activities() = 0;
};

std::unique_ptr<Device> make_cpu_device(const DeviceOptions& options);
// Throws Error(kDevice) when built without CUDA or when the GPU does not exist.
std::unique_ptr<Device> make_cuda_device(int index, const DeviceOptions& options);
int num_cuda_devices();  // 0 without a driver or when built without CUDA; never throws
// Total memory of a GPU, read without opening it; 0 without such a GPU.
std::size_t cuda_memory_bytes(int index);

}  // namespace packtrain
