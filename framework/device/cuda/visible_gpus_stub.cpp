#include "framework/device/visible_gpus.h"

namespace packtrain {

std::vector<std::string> visible_gpus() {
  return {};
}

}  // namespace packtrain
