// The error of a checkpoint or of a Hugging Face folder.
#pragma once

#include <fmt/format.h>

#include <string>

#include "framework/core/error.h"

namespace packtrain {

// Throws Error(kCheckpoint): "PATH: FAULT".
[[noreturn]] inline void fail_at(const std::string& path, const std::string& fault,
                                 const std::string& advice = "") {
  throw Error(ErrorCategory::kCheckpoint, fmt::format("{}: {}", path, fault), advice);
}

}  // namespace packtrain
