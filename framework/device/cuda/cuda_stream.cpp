#include "framework/device/cuda/cuda_stream.h"

#include <c10/cuda/CUDAGuard.h>

#include "framework/device/cuda/check.h"

namespace packtrain {

CudaEvent::CudaEvent() {
  PACKTRAIN_CUDA_CHECK(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
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
  PACKTRAIN_CUDA_CHECK(
      cudaStreamWaitEvent(stream_.stream(), static_cast<const CudaEvent&>(event).get(), 0));
}

void CudaStream::synchronize() {
  PACKTRAIN_CUDA_CHECK(cudaStreamSynchronize(stream_.stream()));
}

}  // namespace packtrain
