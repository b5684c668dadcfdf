// The report of `packtrain verify --precision-report`, as text and as JSON.
#pragma once

#include <string>

#include "training/verification/precision_report.h"

namespace packtrain {

std::string precision_text(const PrecisionReport& report);
std::string precision_json(const PrecisionReport& report);

}  // namespace packtrain
