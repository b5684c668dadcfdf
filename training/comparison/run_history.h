// Reads what a run wrote: the lines of its metrics.jsonl.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "framework/metrics/metrics.h"

namespace packtrain {

struct RunHistory {
  std::vector<StepRecord> steps;              // all steps, in order
  std::vector<EvaluationRecord> evaluations;  // in order; only loss and step are filled in
};

// Parses `text`, lines that Metrics wrote; null becomes NaN (a non-finite value). `path` names it
// in errors. Throws Error(kData) with the line number for any other line, and when steps do not
// count from 1 without gaps.
RunHistory parse_history(std::string_view text, const std::string& path);

// metrics.jsonl of a run folder.
RunHistory read_history(const std::string& run_folder);

}  // namespace packtrain
