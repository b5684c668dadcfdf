// Work that never ends, for faults that are injected.
#pragma once

#include "framework/device/device.h"

namespace packtrain {

// On a GPU, whose stream it is given: a kernel. On the CPU (null): the calling thread.
void spin_forever(StreamHandle stream);

}  // namespace packtrain
