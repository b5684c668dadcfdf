// Replaces `cuda` in a build without CUDA.
#include "framework/core/error.h"
#include "framework/device/captured_work.h"
#include "framework/device/cuda/cached_memory.h"
#include "framework/device/cuda/nvtx.h"
#include "framework/device/cuda/spin_kernel.h"
#include "framework/device/device.h"
#include "framework/device/timed_event.h"
#include "framework/device/visible_gpus.h"

namespace packtrain {
namespace {

[[noreturn]] void throw_no_cuda() {
  throw Error(ErrorCategory::kDevice, "a CUDA device was asked for, but this build has no CUDA",
              "Build with nvcc on PATH and -DPACKTRAIN_CUDA=ON, or train on the CPU.");
}

}  // namespace

void cap_cached_memory(int /*device*/, std::size_t /*bytes*/, std::size_t /*total_bytes*/) {}

void release_cached_memory() {}

std::int64_t num_cached_memory_retries(int /*device*/) {
  return 0;
}

std::unique_ptr<CapturedWork> capture(Stream& /*stream*/, const std::function<void()>& /*work*/) {
  return nullptr;
}

void push_nvtx_range(const char* /*name*/) {}

void pop_nvtx_range() {}

void launch_spin_kernel(void* /*stream*/) {}

std::unique_ptr<Device> make_cuda_device(int /*index*/, const DeviceOptions& /*options*/) {
  throw_no_cuda();
}

std::unique_ptr<TimedEvent> make_cuda_timed_event() {
  throw_no_cuda();
}

int num_cuda_devices() {
  return 0;
}

std::size_t cuda_memory_bytes(int /*index*/) {
  return 0;
}

std::vector<std::string> visible_gpus() {
  return {};
}

}  // namespace packtrain
