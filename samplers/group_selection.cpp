#include "samplers/group_selection.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/core/error.h"
#include "framework/data/group_format.h"

namespace packtrain {
namespace {

// The smallest counts and the largest length of a group's examples.
struct GroupBounds {
  std::int32_t least_tokens = 0;
  std::int32_t most_tokens = 0;
  std::int32_t least_labels = 0;
};

GroupBounds bounds_of(const GroupUnits& units, const ExampleGroup& group) {
  const ExampleCounts lengths = units.store().lengths();
  const ExampleCounts labels = units.store().num_loss_tokens();
  const auto first = static_cast<std::size_t>(group.first_example);
  GroupBounds bounds{lengths[first], lengths[first], labels[first]};
  for (std::size_t e = first + 1; e < first + static_cast<std::size_t>(group.num_examples); ++e) {
    bounds.least_tokens = std::min(bounds.least_tokens, lengths[e]);
    bounds.most_tokens = std::max(bounds.most_tokens, lengths[e]);
    bounds.least_labels = std::min(bounds.least_labels, labels[e]);
  }
  return bounds;
}

bool are_all_trained(const TokenStore& store, std::int64_t max_length) {
  const auto lengths = store.lengths().bounds();
  const auto labels = store.num_loss_tokens().bounds();
  return lengths && labels && lengths->least > 0 && labels->least > 0 &&
         lengths->most <= max_length;
}

[[noreturn]] void fail_too_long(const GroupUnits& units, std::int64_t first,
                                std::int64_t max_length) {
  const ExampleCounts lengths = units.store().lengths();
  std::int64_t count = 0;
  std::int32_t longest = 0;
  for (std::int64_t g = 0; g < static_cast<std::int64_t>(units.size()); ++g) {
    const GroupBounds bounds = bounds_of(units, units.group(g));
    if (bounds.most_tokens <= max_length || bounds.least_labels <= 0) continue;
    ++count;
    longest = std::max(longest, bounds.most_tokens);
  }
  std::int64_t example = units.group(first).first_example;
  while (lengths[static_cast<std::size_t>(example)] <= max_length) ++example;
  throw Error(
      ErrorCategory::kData,
      fmt::format("example {} ({}) of {} has {} tokens, more than data.max_length = {} ({} of {} "
                  "groups have a longer example, the longest has {} tokens)",
                  example, name_of(units.store().groups()->role(example)), units.describe(first),
                  lengths[static_cast<std::size_t>(example)], max_length, count, units.size(),
                  longest),
      fmt::format("Set data.max_length to {} or more, or data.too_long: drop, which leaves the "
                  "whole group out.",
                  longest));
}

[[noreturn]] void fail_empty(const GroupUnits& units, const SelectionCounts& counts,
                             std::int64_t max_length) {
  throw Error(
      ErrorCategory::kData,
      fmt::format("no group of {} is left: of {} groups {} have an empty example, {} were dropped "
                  "for an example longer than data.max_length = {}, {} have an example without a "
                  "label",
                  units.store().folder(), units.size(), counts.empty_examples,
                  counts.dropped_examples, max_length, counts.masked_examples),
      "Check the store, its loss mask, data.max_length and data.too_long.");
}

}  // namespace

std::vector<ExampleIndex> groups_left_out(const GroupUnits& units, TooLong too_long,
                                          std::int64_t max_length, SelectionCounts& counts) {
  std::vector<ExampleIndex> left_out;
  if (are_all_trained(units.store(), max_length)) return left_out;
  for (std::size_t unit = 0; unit < units.size(); ++unit) {
    const auto number = static_cast<std::int64_t>(unit);
    const GroupBounds bounds = bounds_of(units, units.group(number));
    const bool is_too_long = bounds.most_tokens > max_length;
    std::int64_t* count = nullptr;
    if (bounds.least_tokens <= 0) {
      count = &counts.empty_examples;
    } else if (is_too_long && too_long == TooLong::kDrop) {
      count = &counts.dropped_examples;
    } else if (bounds.least_labels <= 0) {
      count = &counts.masked_examples;
    } else if (is_too_long) {
      fail_too_long(units, number, max_length);
    }
    if (count == nullptr) continue;
    ++*count;
    left_out.push_back(static_cast<ExampleIndex>(unit));
  }
  if (left_out.size() == units.size()) fail_empty(units, counts, max_length);
  return left_out;
}

void check_groups_fit(const Selection& selection, std::int64_t max_tokens) {
  const GroupUnits& units = *selection.units();
  ExampleIndex largest = selection.examples()[0];
  std::int64_t most = 0;
  selection.examples().for_each([&](ExampleIndex unit) {
    if (units.num_stored_tokens(units.group(unit)) <= std::max(most, max_tokens)) return;
    if (selection.length(unit) <= most) return;
    most = selection.length(unit);
    largest = unit;
  });
  if (most <= max_tokens) return;
  throw Error(
      ErrorCategory::kConfig,
      fmt::format("{} has {} rows, more than batch.max_tokens_per_micro_batch = {}",
                  units.describe(largest), most, max_tokens),
      fmt::format("Set batch.max_tokens_per_micro_batch to {} or more{}, or lower data.max_length "
                  "with data.too_long: drop.",
                  most, units.shares_prefixes() ? "" : ", or batch.share_prefixes: true"));
}

}  // namespace packtrain
