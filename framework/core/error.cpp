#include "framework/core/error.h"

#include <utility>

namespace packtrain {

const char* category_name(ErrorCategory category) {
  switch (category) {
    case ErrorCategory::kConfig:
      return "configuration";
    case ErrorCategory::kData:
      return "data";
    case ErrorCategory::kCheckpoint:
      return "checkpoint";
    case ErrorCategory::kDevice:
      return "device";
    case ErrorCategory::kInternal:
      return "internal";
    case ErrorCategory::kNonFinite:
      return "non-finite";
    case ErrorCategory::kHang:
      return "hang";
    case ErrorCategory::kReplicasDiffer:
      return "replicas differ";
    case ErrorCategory::kVerify:
      return "verify";
    case ErrorCategory::kStopped:
      return "stopped";
    case ErrorCategory::kDoNotRestart:
      return "do not restart";
  }
  return "unknown";
}

Error::Error(ErrorCategory category, std::string message, std::string advice)
    : category_(category), message_(std::move(message)), advice_(std::move(advice)) {
  text_ = message_;
  if (!advice_.empty()) text_ += "\n  " + advice_;
}

}  // namespace packtrain
