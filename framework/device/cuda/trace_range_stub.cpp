#include "framework/device/trace_range.h"

namespace packtrain {

TraceRange::TraceRange(const char* /*name*/) {}
TraceRange::~TraceRange() = default;

}  // namespace packtrain
