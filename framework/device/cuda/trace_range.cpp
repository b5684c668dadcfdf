#include "framework/device/trace_range.h"

#include <nvtx3/nvToolsExt.h>

namespace packtrain {

TraceRange::TraceRange(const char* name) {
  nvtxRangePushA(name);
}

TraceRange::~TraceRange() {
  nvtxRangePop();
}

}  // namespace packtrain
