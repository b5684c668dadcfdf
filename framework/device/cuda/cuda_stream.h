// CUDA's streams and events behind the device interface.
#pragma once

#include <c10/cuda/CUDAStream.h>

#include "framework/device/device.h"

namespace packtrain {

class CudaEvent final : public Event {
 public:
  CudaEvent();
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
  explicit CudaStream(c10::cuda::CUDAStream stream) : stream_(stream) {}
  void run(std::function<void(StreamHandle)> work) override;
  void record(Event& event) override;
  void wait(const Event& event) override;
  void synchronize() override;

 private:
  c10::cuda::CUDAStream stream_;
};

}  // namespace packtrain
