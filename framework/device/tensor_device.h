// Libtorch's device of a Device, and a wait for its current stream.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "framework/device/device.h"

namespace packtrain {

inline c10::Device tensor_device(const Device& device) {
  if (device.kind() == DeviceKind::kCpu) return c10::Device(c10::kCPU);
  return {c10::kCUDA, static_cast<c10::DeviceIndex>(device.index())};
}

// Waits for the current stream of the device. Copies that convert run on it; other streams may read
// their results afterwards. Does nothing on the CPU.
inline void wait_for_current_stream(c10::Device device) {
  if (device.is_cpu()) return;
  c10::impl::VirtualGuardImpl(device.type()).getStream(device).synchronize();
}

}  // namespace packtrain
