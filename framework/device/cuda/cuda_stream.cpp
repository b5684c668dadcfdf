#include "framework/device/cuda/cuda_stream.h"

#include <c10/cuda/CUDAGuard.h>

#include "framework/device/cuda/check.h"
#include "framework/device/range_recorder.h"

namespace packtrain {

CudaEvent::CudaEvent(bool timing) {
  const unsigned int flags = timing ? cudaEventDefault : cudaEventDisableTiming;
  PACKTRAIN_CUDA_CHECK(cudaEventCreateWithFlags(&event_, flags));
}

CudaEvent::~CudaEvent() {
  cudaEventDestroy(event_);  // a destructor cannot handle a failure
}

void CudaEvent::synchronize() {
  PACKTRAIN_CUDA_CHECK(cudaEventSynchronize(event_));
}

double CudaEvent::seconds_since(TimedEvent& earlier) {
  synchronize();
  earlier.synchronize();
  float milliseconds = 0;
  PACKTRAIN_CUDA_CHECK(
      cudaEventElapsedTime(&milliseconds, static_cast<CudaEvent&>(earlier).get(), event_));
  return static_cast<double>(milliseconds) / 1e3;
}

std::unique_ptr<TimedEvent> make_cuda_timed_event() {
  return std::make_unique<CudaEvent>(/*timing=*/true);
}

void CudaStream::run(std::function<void(StreamHandle)> work) {
  const c10::cuda::CUDAStreamGuard guard(stream_);
  work(stream_.stream());
}

void CudaStream::record(Event& event) {
  auto& recorded = static_cast<CudaEvent&>(event);
  const RangeScope range("record", {RangeKind::kStreamRecord, stream_name(kind_)});
  PACKTRAIN_CUDA_CHECK(cudaEventRecord(recorded.get(), stream_.stream()));
  recorded.recorded_by = kind_;
  recorded.recorded_in = range.id();
}

void CudaStream::wait(const Event& event) {
  const auto& awaited = static_cast<const CudaEvent&>(event);
  const RangeScope range(wait_name(awaited.recorded_by),
                         {RangeKind::kStreamWait, stream_name(kind_), awaited.recorded_in});
  if (kind_ != StreamKind::kCompute) {
    wait_for(awaited.get());
    return;
  }
  MeasuredWait wait = take_unused();
  wait.awaited = awaited.recorded_by;
  PACKTRAIN_CUDA_CHECK(cudaEventRecord(wait.begin->get(), stream_.stream()));
  wait_for(awaited.get());
  PACKTRAIN_CUDA_CHECK(cudaEventRecord(wait.end->get(), stream_.stream()));
  running_.push_back(std::move(wait));
}

void CudaStream::wait_for(cudaEvent_t event) {
  PACKTRAIN_CUDA_CHECK(cudaStreamWaitEvent(stream_.stream(), event, 0));
}

CudaStream::MeasuredWait CudaStream::take_unused() {
  if (unused_.empty()) {
    return {std::make_unique<CudaEvent>(true), std::make_unique<CudaEvent>(true)};
  }
  MeasuredWait wait = std::move(unused_.back());
  unused_.pop_back();
  return wait;
}

WaitedTime CudaStream::take_waited() {
  WaitedTime waited;
  while (!running_.empty()) {
    const cudaError_t state = cudaEventQuery(running_.front().end->get());
    if (state == cudaErrorNotReady) break;
    PACKTRAIN_CUDA_CHECK(state);
    float milliseconds = 0;
    PACKTRAIN_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, running_.front().begin->get(),
                                              running_.front().end->get()));
    waited.add(running_.front().awaited, 1e-3 * milliseconds);
    unused_.push_back(std::move(running_.front()));
    running_.pop_front();
  }
  return waited;
}

void CudaStream::synchronize() {
  PACKTRAIN_CUDA_CHECK(cudaStreamSynchronize(stream_.stream()));
}

}  // namespace packtrain
