// Converts a Device to libtorch's device.
#pragma once

#include <c10/core/Device.h>

#include "framework/device/device.h"

namespace packtrain {

inline c10::Device tensor_device(const Device& device) {
  if (device.kind() == DeviceKind::kCpu) return c10::Device(c10::kCPU);
  return {c10::kCUDA, static_cast<c10::DeviceIndex>(device.index())};
}

}  // namespace packtrain
