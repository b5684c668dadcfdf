// CUDA's streams and events behind the device interface.
#pragma once

#include <c10/cuda/CUDAStream.h>

#include <deque>
#include <memory>
#include <vector>

#include "framework/device/device.h"

namespace packtrain {

class CudaEvent final : public Event {
 public:
  explicit CudaEvent(bool timing = false);
  ~CudaEvent() override;
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  void synchronize() override;
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

// A stream of libtorch's pool, so that the caching allocator and autograd know it.
class CudaStream final : public Stream {
 public:
  // `measures_waits`: for take_waited_s(), at the price of two timing events around each wait.
  CudaStream(c10::cuda::CUDAStream stream, bool measures_waits)
      : stream_(stream), measures_waits_(measures_waits) {}
  void run(std::function<void(StreamHandle)> work) override;
  void record(Event& event) override;
  void wait(const Event& event) override;
  void synchronize() override;
  double take_waited_s() override;

 private:
  struct MeasuredWait {
    std::unique_ptr<CudaEvent> begin;
    std::unique_ptr<CudaEvent> end;
  };
  MeasuredWait take_unused();

  c10::cuda::CUDAStream stream_;
  bool measures_waits_;
  std::deque<MeasuredWait> running_;
  std::vector<MeasuredWait> unused_;
};

}  // namespace packtrain
