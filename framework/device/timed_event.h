// Events with times.
#pragma once

#include <memory>

#include "framework/device/device.h"

namespace packtrain {

class TimedEvent : public Event {
 public:
  // Seconds from the latest record() of `earlier` to that of this event, by the device's clock.
  // Both must be of the same device and recorded. The host waits for both.
  virtual double seconds_since(TimedEvent& earlier) = 0;
};

std::unique_ptr<TimedEvent> make_timed_event(const Device& device);

std::unique_ptr<TimedEvent> make_cpu_timed_event();
std::unique_ptr<TimedEvent> make_cuda_timed_event();  // Error(kDevice) when built without CUDA

}  // namespace packtrain
