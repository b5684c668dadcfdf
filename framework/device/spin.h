// Work that never ends, for injected faults.
#pragma once

#include "framework/device/device.h"

namespace packtrain {

// Runs on `stream` as a kernel, or on the calling thread when `stream` is null (CPU).
void spin_forever(StreamHandle stream);

}  // namespace packtrain
