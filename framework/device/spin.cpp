#include "framework/device/spin.h"

#include <chrono>
#include <thread>

#include "framework/device/cuda/spin_kernel.h"

namespace packtrain {

void spin_forever(StreamHandle stream) {
  if (stream != nullptr) return launch_spin_kernel(stream);
  for (;;) std::this_thread::sleep_for(std::chrono::hours(24));
}

}  // namespace packtrain
