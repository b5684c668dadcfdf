#include "samplers/selection.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "framework/core/error.h"
#include "samplers/group_selection.h"

namespace packtrain {
namespace {

void check_number(std::size_t num_examples) {
  constexpr std::size_t kMost = std::numeric_limits<ExampleIndex>::max();
  if (num_examples <= kMost) return;
  throw Error(
      ErrorCategory::kData,
      fmt::format("the store has {} examples, at most {} can be planned", num_examples, kMost),
      "Split the store.");
}

}  // namespace

Selection::Selection(const ExampleCounts& lengths, const ExampleCounts& num_loss_tokens,
                     const LossCounter& counter, TooLong too_long, std::int64_t max_length)
    : lengths_(lengths),
      num_loss_tokens_(num_loss_tokens),
      counter_(counter),
      too_long_(too_long),
      max_length_(max_length) {
  if (lengths.size() != num_loss_tokens.size()) {
    throw Error(ErrorCategory::kInternal,
                fmt::format("selection: {} lengths, but {} counts of loss tokens", lengths.size(),
                            num_loss_tokens.size()));
  }
  check_number(lengths.size());
  std::vector<ExampleIndex> left_out;
  if (!are_all_selected()) {
    for (std::size_t example = 0; example < lengths.size(); ++example) {
      if (!select(example)) left_out.push_back(static_cast<ExampleIndex>(example));
    }
  }
  examples_ = SelectedExamples(lengths.size(), std::move(left_out));
  if (examples_.empty()) fail_empty();
}

// Groups are whole: nothing is longer than the length at which examples are cut.
Selection::Selection(const GroupUnits& units, const LossCounter& counter, TooLong too_long,
                     std::int64_t max_length)
    : units_(&units),
      lengths_(units.lengths()),
      num_loss_tokens_(units.num_loss_tokens()),
      counter_(counter),
      too_long_(TooLong::kError),
      max_length_(std::numeric_limits<std::int32_t>::max()) {
  check_number(units.size());
  examples_ = SelectedExamples(units.size(), groups_left_out(units, too_long, max_length, counts_));
}

std::string Selection::describe(ExampleIndex example) const {
  return units_ == nullptr ? fmt::format("example {}", example) : units_->describe(example);
}

ExampleCounts Selection::stored_lengths() const {
  return units_ == nullptr ? lengths_ : units_->store().lengths();
}

bool Selection::are_all_selected() const {
  const auto lengths = lengths_.bounds();
  const auto labels = num_loss_tokens_.bounds();
  return lengths && labels && lengths->least > 0 && labels->least > 0 &&
         lengths->most <= max_length_;
}

void Selection::fail_empty() const {
  throw Error(
      ErrorCategory::kData,
      fmt::format("no example is left to train on: of {} examples {} are empty, {} were "
                  "dropped as longer than data.max_length = {}, {} have no label, {} are "
                  "cut there before anything that is learned",
                  lengths_.size(), counts_.empty_examples, counts_.dropped_examples, max_length_,
                  counts_.masked_examples, counts_.truncated_to_empty_examples),
      counts_.truncated_to_empty_examples > 0
          ? "Raise data.max_length, or choose data.too_long: split."
          : "Check data.train, its loss mask, data.max_length and data.too_long.");
}

bool Selection::select(std::size_t example) {
  if (lengths_[example] <= 0) {
    ++counts_.empty_examples;
    return false;
  }
  const bool cut = is_too_long(example);
  if (cut && too_long_ == TooLong::kDrop) {
    ++counts_.dropped_examples;
    return false;
  }
  const bool truncated = is_truncated(example);
  if (num_loss_tokens_[example] <= 0) {
    ++counts_.masked_examples;
    return false;
  }
  if (truncated && !keeps_a_label(example)) {
    ++counts_.truncated_to_empty_examples;
    return false;
  }
  if (cut && too_long_ == TooLong::kError) fail_too_long();
  if (truncated) ++counts_.truncated_examples;
  if (cut && too_long_ == TooLong::kSplit) ++counts_.split_examples;
  return true;
}

// For a truncated example with labels. Reads its mask only where all labels may come after the cut.
bool Selection::keeps_a_label(std::size_t example) const {
  if (num_loss_tokens_[example] > lengths_[example] - max_length_) return true;
  return counter_.has_label_before(static_cast<std::int64_t>(example),
                                   static_cast<std::int32_t>(max_length_));
}

std::vector<bool> Selection::flags() const {
  if (examples_.size() == lengths_.size()) return {};
  std::vector<bool> flags(lengths_.size(), false);
  examples_.for_each([&](ExampleIndex example) { flags[example] = true; });
  return flags;
}

std::int32_t Selection::length(ExampleIndex example) const {
  return is_truncated(example) ? static_cast<std::int32_t>(max_length_) : lengths_[example];
}

std::int32_t Selection::piece_length(ExampleIndex example) const {
  return is_too_long(example) ? static_cast<std::int32_t>(max_length_) : lengths_[example];
}

std::optional<ExampleIndex> Selection::longest_above(std::int64_t enough) const {
  const auto bounds = lengths_.bounds();
  if (bounds && bounds->most <= enough) return {};
  ExampleIndex longest = examples_[0];
  examples_.for_each([&](ExampleIndex example) {
    if (piece_length(example) > piece_length(longest)) longest = example;
  });
  return longest;
}

void Selection::append_pieces(ExampleIndex example, std::vector<Piece>& pieces) const {
  const std::int64_t end = length(example);
  for (std::int64_t begin = 0; begin < end; begin += piece_length(example)) {
    const std::int64_t count = std::min<std::int64_t>(piece_length(example), end - begin);
    pieces.push_back({.example = example,
                      .begin = static_cast<std::int32_t>(begin),
                      .length = static_cast<std::int32_t>(count),
                      .continues = begin + count < end});
  }
}

std::int64_t Selection::num_loss_tokens(ExampleIndex example) const {
  if (!is_truncated(example)) return num_loss_tokens_[example];
  return counter_.loss_tokens_before(example, static_cast<std::int32_t>(max_length_));
}

std::int64_t Selection::num_loss_tokens(const Piece& piece) const {
  if (piece.begin == 0 && !piece.continues) {
    return num_loss_tokens(static_cast<ExampleIndex>(piece.example));
  }
  // The piece's first token is no label in it. The token after it is one where the piece continues.
  const std::int32_t end = piece.begin + piece.length + (piece.continues ? 1 : 0);
  return counter_.loss_tokens_between(piece.example, piece.begin + 1, end);
}

void Selection::fail_too_long() const {
  std::size_t count = 0;
  std::size_t first = 0;
  std::int32_t longest = 0;
  for (std::size_t example = 0; example < lengths_.size(); ++example) {
    if (!is_too_long(example) || num_loss_tokens_[example] <= 0) continue;
    if (count++ == 0) first = example;
    longest = std::max(longest, lengths_[example]);
  }
  throw Error(
      ErrorCategory::kData,
      fmt::format("example {} has {} tokens, more than data.max_length = {} ({} of {} examples "
                  "are longer, the longest has {} tokens)",
                  first, lengths_[first], max_length_, count, lengths_.size(), longest),
      fmt::format("Set data.max_length to {} or more (and batch.max_tokens_per_micro_batch to at "
                  "least that), or data.too_long to truncate, split or drop.",
                  longest));
}

}  // namespace packtrain
