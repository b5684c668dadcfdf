#include <c10/core/AllocatorConfig.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>

#include <cstdlib>
#include <string>

#include "framework/core/error.h"
#include "framework/device/cuda/architecture.h"
#include "framework/device/cuda/check.h"
#include "framework/device/cuda/cuda_activities.h"
#include "framework/device/cuda/cuda_stream.h"
#include "framework/device/cuda/peak_tflops.h"
#include "framework/device/cuda/pinned_memory.h"
#include "framework/device/device.h"

namespace packtrain {
namespace {

// Uses memory segments that can grow. Sizes differ in every step, so without them the allocator
// would add new segments when no free block is large enough. User settings take precedence.
void use_expandable_segments() {
  for (const char* variable : {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"}) {
    if (std::getenv(variable) != nullptr) return;
  }
  c10::CachingAllocator::setAllocatorSettings("expandable_segments:True");
}

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(int index) : index_(static_cast<c10::DeviceIndex>(index)) {
    c10::cuda::set_device(index_);
    cudaDeviceProp properties{};
    PACKTRAIN_CUDA_CHECK(cudaGetDeviceProperties(&properties, index));
    name_ = properties.name;
    total_memory_bytes_ = properties.totalGlobalMem;
    check_architecture(properties.name, properties.major, properties.minor);
    PACKTRAIN_CUDA_CHECK(cudaFree(nullptr));  // creates the context, so that its errors occur here
    use_expandable_segments();
    c10::cuda::CUDACachingAllocator::init(c10::cuda::device_count());
    c10::cuda::CUDACachingAllocator::resetPeakStats(index_);
  }

  DeviceKind kind() const override { return DeviceKind::kCuda; }
  int index() const override { return index_; }
  std::string name() const override { return name_; }

  std::unique_ptr<Stream> make_stream(StreamKind kind) override {
    // The small kernels of collectives must not wait for the blocks of a GEMM.
    const bool high_priority = kind == StreamKind::kGather || kind == StreamKind::kReduce;
    const auto stream = c10::cuda::getStreamFromPool(high_priority, index_);
    stream_kinds_[stream.stream()] = kind;
    return std::make_unique<CudaStream>(stream, kind);
  }

  std::unique_ptr<Event> make_event() override { return std::make_unique<CudaEvent>(); }

  HostBuffer allocate_host(std::size_t bytes) override {
    if (bytes == 0) return {};
    const c10::cuda::CUDAGuard guard(index_);  // may be called from a data thread
    return allocate_pinned(bytes, index_);
  }

  std::size_t peak_memory_bytes() const override {
    const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(index_);
    return static_cast<std::size_t>(stats.allocated_bytes[0].peak);  // [0]: all pools together
  }

  MemoryUse memory_use() const override {
    const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(index_);
    return {.allocated_bytes = static_cast<std::size_t>(stats.allocated_bytes[0].current),
            .reserved_bytes = static_cast<std::size_t>(stats.reserved_bytes[0].current)};
  }

  std::size_t total_memory_bytes() const override { return total_memory_bytes_; }

  std::size_t available_memory_bytes() const override {
    const c10::cuda::CUDAGuard guard(index_);
    std::size_t free = 0;
    std::size_t total = 0;
    PACKTRAIN_CUDA_CHECK(cudaMemGetInfo(&free, &total));
    const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(index_);
    const auto cached = stats.reserved_bytes[0].current - stats.allocated_bytes[0].current;
    return free + static_cast<std::size_t>(cached);
  }

  double peak_tflops() const override { return peak_tflops_of(name_); }

  std::unique_ptr<ActivityRecorder> record_activities() override {
    return record_cuda_activities(stream_kinds_);
  }

 private:
  c10::DeviceIndex index_;
  std::string name_;
  std::size_t total_memory_bytes_ = 0;
  StreamKinds stream_kinds_;
};

}  // namespace

std::unique_ptr<Device> make_cuda_device(int index, const DeviceOptions& /*options*/) {
  const int count = num_cuda_devices();
  if (index < 0 || index >= count) {
    throw Error(ErrorCategory::kDevice,
                "no CUDA device " + std::to_string(index) +
                    " on this host: " + std::to_string(count) + " visible",
                "Start at most one rank per GPU of a host; nvidia-smi and CUDA_VISIBLE_DEVICES "
                "tell which GPUs a process sees.");
  }
  return std::make_unique<CudaDevice>(index);
}

int num_cuda_devices() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  cudaGetLastError();  // clears the error: a missing driver is not a fault
  return 0;
}

std::size_t cuda_memory_bytes(int index) {
  cudaDeviceProp properties{};
  if (cudaGetDeviceProperties(&properties, index) == cudaSuccess) return properties.totalGlobalMem;
  cudaGetLastError();
  return 0;
}

}  // namespace packtrain
