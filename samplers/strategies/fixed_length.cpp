#include "samplers/strategies/fixed_length.h"

#include <fmt/format.h>

#include "framework/core/error.h"

namespace packtrain {

void check_fixed_length(const Selection&, const PlanOptions& options) {
  const std::int64_t row = options.max_length;
  if (row > options.max_tokens_per_micro_batch) {
    throw Error(ErrorCategory::kConfig,
                fmt::format("strategy fixed_length makes rows of data.max_length = {} tokens, more "
                            "than batch.max_tokens_per_micro_batch = {}",
                            row, options.max_tokens_per_micro_batch),
                "Lower data.max_length or raise batch.max_tokens_per_micro_batch.");
  }
  const std::int64_t step = options.global_batch_tokens;
  if (step > 0 && step % row == 0) return;
  const std::int64_t below = step / row * row;
  throw Error(ErrorCategory::kConfig,
              fmt::format("strategy fixed_length: a step of batch.global_batch_tokens = {} is no "
                          "whole number of rows of data.max_length = {} tokens",
                          step, row),
              below == 0
                  ? fmt::format("Set batch.global_batch_tokens to {} or a multiple of it.", row)
                  : fmt::format("Set batch.global_batch_tokens to {} or {}.", below, below + row));
}

}  // namespace packtrain
