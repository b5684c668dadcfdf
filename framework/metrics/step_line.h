// Parts of the lines for people.
#pragma once

#include <string>

#include "framework/metrics/metrics.h"

namespace packtrain {

// "812", "12.3k", "4.56M", "7.80G": three digits and a power of 1000.
std::string short_count(double count);

// "12 s", "3 min 05 s", "2 h 05 min", "1 d 03 h"
std::string short_duration(double seconds);

// "step 200  validation loss 2.345  perplexity 10.43  1.00k examples  120k tokens". When sets have
// names: "step 200  validation loss code 2.345  ...", for this record only.
std::string format_evaluation_line(const EvaluationRecord& record);

// "step 200  accuracy 0.5125  f1 0.4"
std::string format_command_line(const CommandRecord& record);

}  // namespace packtrain
