#include "framework/device/timed_event.h"

namespace packtrain {

std::unique_ptr<TimedEvent> make_timed_event(const Device& device) {
  return device.kind() == DeviceKind::kCuda ? make_cuda_timed_event() : make_cpu_timed_event();
}

}  // namespace packtrain
