#include "training/evaluation/smaller_batches.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

namespace packtrain {

std::int64_t smaller_budget(const StepPlan& plan, std::int64_t budget) {
  std::int64_t largest = 0;
  for (const auto& micro_batches : plan.ranks) {
    for (const MicroBatch& pieces : micro_batches) {
      std::int64_t num_units = 0;
      std::int64_t num_tokens = 0;
      for_each_unit(pieces, [&](std::span<const Piece> unit) {
        ++num_units;
        for (const Piece& piece : unit) num_tokens += piece.length;
      });
      if (num_units < 2) continue;
      largest = std::max(largest, num_tokens);
    }
  }
  largest = std::min(largest, budget);
  return largest - (largest + 3) / 4;
}

EvaluationError does_not_fit(const std::string& what, const EvaluationOutOfMemory& error) {
  return {
      ErrorCategory::kDevice,
      fmt::format("{}: an example does not fit, alone in a micro-batch: {}", what, error.what()),
      "Use more ranks, or shorter examples in data.validation."};
}

}  // namespace packtrain
