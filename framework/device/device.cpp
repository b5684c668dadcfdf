#include "framework/device/device.h"

namespace packtrain {

const char* stream_name(StreamKind kind) {
  switch (kind) {
    case StreamKind::kCompute:
      return "compute";
    case StreamKind::kGather:
      return "gather";
    case StreamKind::kReduce:
      return "reduce";
    case StreamKind::kCopy:
      break;
  }
  return "copy";
}

void WaitedTime::add(StreamKind recorded_by, double seconds) {
  if (recorded_by == StreamKind::kGather) {
    gather_s += seconds;
  } else if (recorded_by == StreamKind::kReduce) {
    reduce_s += seconds;
  } else {
    other_s += seconds;
  }
}

}  // namespace packtrain
