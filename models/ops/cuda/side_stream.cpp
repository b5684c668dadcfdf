#include "models/ops/cuda/side_stream.h"

#include <map>

#include "framework/device/cuda/check.h"

namespace packtrain {
namespace {

// The same stream each time, because libtorch's pool is small and others use it.
c10::cuda::CUDAStream side_stream(c10::DeviceIndex device) {
  thread_local std::map<c10::DeviceIndex, c10::cuda::CUDAStream> streams;
  const auto found = streams.find(device);
  if (found != streams.end()) return found->second;
  const auto made = c10::cuda::getStreamFromPool(/*isHighPriority=*/true, device);
  return streams.emplace(device, made).first->second;
}

void follow(c10::cuda::CUDAStream stream, c10::cuda::CUDAStream leader, const CudaEvent& event) {
  PACKTRAIN_CUDA_CHECK(cudaEventRecord(event.get(), leader.stream()));
  PACKTRAIN_CUDA_CHECK(cudaStreamWaitEvent(stream.stream(), event.get(), 0));
}

}  // namespace

SideStream::SideStream(const at::Tensor& tensor)
    : main_(c10::cuda::getCurrentCUDAStream(tensor.device().index())),
      side_(side_stream(tensor.device().index())) {
  follow(side_, main_, forked_);
}

void SideStream::join() {
  follow(main_, side_, joined_);
}

}  // namespace packtrain
