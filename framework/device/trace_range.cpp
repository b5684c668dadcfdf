#include "framework/device/trace_range.h"

#include "framework/device/cuda/nvtx.h"

namespace packtrain {

TraceRange::TraceRange(const std::string& name) : scope_(name) {
  push_nvtx_range(name.c_str());
}

TraceRange::~TraceRange() {
  pop_nvtx_range();
}

}  // namespace packtrain
