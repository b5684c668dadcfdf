// What a run wrote of itself: the lines of its metrics.jsonl.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "framework/metrics/metrics.h"

namespace packtrain {

struct RunHistory {
  std::vector<StepRecord> steps;              // in order, every one
  std::vector<EvaluationRecord> evaluations;  // in order; loss and step alone are filled in
};

// Lines of `text` as Metrics writes them, NaN for a null (what was not finite); `path` names it in
// errors. Throws Error(kData) with the line for what is no such line, and for steps that do not
// follow each other from 1.
RunHistory parse_history(std::string_view text, const std::string& path);

// metrics.jsonl of a run folder.
RunHistory read_history(const std::string& run_folder);

}  // namespace packtrain
