// Replaces the CUDA device in builds without CUDA.
#include "framework/core/error.h"
#include "framework/device/device.h"
#include "framework/device/timed_event.h"

namespace packtrain {

namespace {

[[noreturn]] void throw_no_cuda() {
  throw Error(ErrorCategory::kDevice, "a CUDA device was asked for, but this build has no CUDA",
              "Build with nvcc on PATH and -DPACKTRAIN_CUDA=ON, or train on the CPU.");
}

}  // namespace

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

}  // namespace packtrain
