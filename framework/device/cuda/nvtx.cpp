#include "framework/device/cuda/nvtx.h"

#include <nvtx3/nvToolsExt.h>

namespace packtrain {

void push_nvtx_range(const char* name) {
  nvtxRangePushA(name);
}

void pop_nvtx_range() {
  nvtxRangePop();
}

}  // namespace packtrain
