// The device interface for CUDA's streams and events.
#pragma once

#include <c10/cuda/CUDAStream.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "framework/device/timed_event.h"

namespace packtrain {

class CudaEvent final : public TimedEvent {
 public:
  explicit CudaEvent(bool timing = false);  // seconds_since() needs timing
  ~CudaEvent() override;
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  void synchronize() override;
  double seconds_since(TimedEvent& earlier) override;
  cudaEvent_t get() const { return event_; }

  // State of the latest record().
  StreamKind recorded_by = StreamKind::kCompute;
  std::uint64_t recorded_in = 0;  // the timeline's range of the record() call, 0 = none

 private:
  cudaEvent_t event_ = nullptr;
};

// A stream of libtorch's pool, so that the caching allocator and autograd support it.
class CudaStream final : public Stream {
 public:
  // Two timing events around each wait measure the waits of a compute stream.
  CudaStream(c10::cuda::CUDAStream stream, StreamKind kind) : stream_(stream), kind_(kind) {}
  void run(std::function<void(StreamHandle)> work) override;
  void record(Event& event) override;
  void wait(const Event& event) override;
  void synchronize() override;
  WaitedTime take_waited() override;

 private:
  struct MeasuredWait {
    std::unique_ptr<CudaEvent> begin;
    std::unique_ptr<CudaEvent> end;
    StreamKind awaited = StreamKind::kCompute;
  };
  void wait_for(cudaEvent_t event);
  MeasuredWait take_unused();

  c10::cuda::CUDAStream stream_;
  StreamKind kind_;
  std::deque<MeasuredWait> running_;
  std::vector<MeasuredWait> unused_;
};

}  // namespace packtrain
