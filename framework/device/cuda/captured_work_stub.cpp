#include "framework/device/captured_work.h"

namespace packtrain {

std::unique_ptr<CapturedWork> capture(Stream& /*stream*/, const std::function<void()>& /*work*/) {
  return nullptr;
}

}  // namespace packtrain
