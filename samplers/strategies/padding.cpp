#include "samplers/strategies/padding.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/core/error.h"
#include "samplers/group_units.h"
#include "samplers/longest_pieces.h"
#include "samplers/strategies/padding_free.h"

namespace packtrain {
namespace {

// Every example of a group is a row of its own, padded to the longest one.
LongestPieces longest_of_groups(const Selection& selection, const PlanOptions& options) {
  const GroupUnits& units = *selection.units();
  LongestPieces result;
  std::int64_t most_examples = 0;  // of a group
  selection.examples().for_each([&](ExampleIndex unit) {
    const ExampleGroup group = units.group(unit);
    most_examples = std::max(most_examples, group.num_examples);
    const std::int32_t longest = units.longest_length(group);
    if (longest <= result.longest) return;
    result.longest = longest;
    result.example = unit;
  });
  const std::int64_t most_groups =
      options.global_batch_size > 0 ? std::min(options.micro_batch_size, options.global_batch_size)
                                    : options.micro_batch_size;
  const auto num_groups = static_cast<std::int64_t>(selection.examples().size());
  result.count = most_examples * std::min(most_groups, num_groups);
  return result;
}

}  // namespace

void check_padding(const Selection& selection, const PlanOptions& options) {
  const LongestPieces longest = selection.units() == nullptr
                                    ? longest_pieces(selection, options)
                                    : longest_of_groups(selection, options);
  const std::int64_t rows = longest.count * longest.longest;
  if (rows <= options.max_tokens_per_micro_batch) return;
  throw Error(
      ErrorCategory::kConfig,
      fmt::format("strategy padding may pad {} examples to the longest of all ({} with {} tokens): "
                  "{} rows in one micro-batch, more than batch.max_tokens_per_micro_batch = {}",
                  longest.count, selection.describe(longest.example), longest.longest, rows,
                  options.max_tokens_per_micro_batch),
      fmt::format("Raise batch.max_tokens_per_micro_batch, lower batch.micro_batch_size, lower "
                  "data.max_length with data.too_long: {}, or use batch.strategy: balanced, which "
                  "needs no pads.",
                  ways_to_shorten(selection)));
}

Assignment assign_padding(const StepPieces& step, const PlanOptions& options) {
  return assign_chunks(step, options, /*pads=*/true);
}

}  // namespace packtrain
