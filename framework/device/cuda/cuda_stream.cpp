#include "framework/device/cuda/cuda_stream.h"

#include <c10/cuda/CUDAGuard.h>

#include "framework/device/cuda/check.h"

namespace packtrain {

CudaEvent::CudaEvent(bool timing) {
  const unsigned int flags = timing ? cudaEventDefault : cudaEventDisableTiming;
  PACKTRAIN_CUDA_CHECK(cudaEventCreateWithFlags(&event_, flags));
}

CudaEvent::~CudaEvent() {
  cudaEventDestroy(event_);  // nothing can be done about a failure here
}

void CudaEvent::synchronize() {
  PACKTRAIN_CUDA_CHECK(cudaEventSynchronize(event_));
}

void CudaStream::run(std::function<void(StreamHandle)> work) {
  const c10::cuda::CUDAStreamGuard guard(stream_);
  work(stream_.stream());
}

void CudaStream::record(Event& event) {
  PACKTRAIN_CUDA_CHECK(cudaEventRecord(static_cast<CudaEvent&>(event).get(), stream_.stream()));
}

void CudaStream::wait(const Event& event) {
  const cudaEvent_t awaited = static_cast<const CudaEvent&>(event).get();
  if (!measures_waits_) {
    PACKTRAIN_CUDA_CHECK(cudaStreamWaitEvent(stream_.stream(), awaited, 0));
    return;
  }
  MeasuredWait wait = take_unused();
  record(*wait.begin);
  PACKTRAIN_CUDA_CHECK(cudaStreamWaitEvent(stream_.stream(), awaited, 0));
  record(*wait.end);
  running_.push_back(std::move(wait));
}

CudaStream::MeasuredWait CudaStream::take_unused() {
  if (unused_.empty()) {
    return {std::make_unique<CudaEvent>(true), std::make_unique<CudaEvent>(true)};
  }
  MeasuredWait wait = std::move(unused_.back());
  unused_.pop_back();
  return wait;
}

double CudaStream::take_waited_s() {
  double seconds = 0;
  while (!running_.empty()) {
    const cudaError_t state = cudaEventQuery(running_.front().end->get());
    if (state == cudaErrorNotReady) break;
    PACKTRAIN_CUDA_CHECK(state);
    float milliseconds = 0;
    PACKTRAIN_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, running_.front().begin->get(),
                                              running_.front().end->get()));
    seconds += 1e-3 * milliseconds;
    unused_.push_back(std::move(running_.front()));
    running_.pop_front();
  }
  return seconds;
}

void CudaStream::synchronize() {
  PACKTRAIN_CUDA_CHECK(cudaStreamSynchronize(stream_.stream()));
}

}  // namespace packtrain
