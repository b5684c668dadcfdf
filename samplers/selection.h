// Selection: which examples of a store are trained, and how many tokens of each. Everything left
// out is counted. Of a store with groups, read "group" for "example" and rows for tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "framework/config/config.h"
#include "samplers/loss_counter.h"
#include "samplers/plan.h"
#include "samplers/selected_examples.h"

namespace packtrain {

class GroupUnits;  // group_units.h

// Counts of examples left out or cut in one epoch. An example counts once, in the first of these
// that applies. A group counts once, where one of its examples is left out.
struct SelectionCounts {
  std::int64_t empty_examples = 0;    // no tokens
  std::int64_t dropped_examples = 0;  // longer than max_length, policy drop
  std::int64_t masked_examples = 0;   // no label
  // Longer than max_length, policy truncate, all labels after the cut.
  std::int64_t truncated_to_empty_examples = 0;
  std::int64_t truncated_examples = 0;  // longer than max_length, policy truncate; trained
  std::int64_t split_examples = 0;      // longer than max_length, policy split; all of it trained
};

class Selection {
 public:
  // `lengths`, `num_loss_tokens` [num_examples of the store] and `counter` must outlive it. It
  // reads neither array where their bounds show that all examples are selected whole. Throws
  // Error(kData) when an example is too long under policy error, unless it is fully masked, or when
  // no example is left.
  Selection(const ExampleCounts& lengths, const ExampleCounts& num_loss_tokens,
            const LossCounter& counter, TooLong too_long, std::int64_t max_length);

  // Of the groups of a store. `units` and `counter` must outlive it. Throws as groups_left_out().
  Selection(const GroupUnits& units, const LossCounter& counter, TooLong too_long,
            std::int64_t max_length);

  const GroupUnits* units() const { return units_; }  // null: of a plain store
  // "example 3", or the group's name
  std::string describe(ExampleIndex example) const;
  const SelectedExamples& examples() const { return examples_; }
  const SelectionCounts& losses() const { return counts_; }
  // [examples of the store, of groups too] before cutting
  ExampleCounts stored_lengths() const;
  // [examples or groups of the store] True for selected ones. Empty where all are.
  std::vector<bool> flags() const;
  // Number of trained tokens of a selected example, after truncation.
  std::int32_t length(ExampleIndex example) const;
  // Tokens of its first and longest piece: all of them, or data.max_length of a split example.
  std::int32_t piece_length(ExampleIndex example) const;
  // The example with the longest piece, the first of several. Returns nothing where the bounds of
  // all lengths show that no piece has more than `enough` tokens.
  std::optional<ExampleIndex> longest_above(std::int64_t enough) const;
  // Appends the pieces of an example. A split example has as few as possible, all full but the
  // last.
  void append_pieces(ExampleIndex example, std::vector<Piece>& pieces) const;
  std::int64_t num_loss_tokens(ExampleIndex example) const;
  // Number of labels of a piece of a selected example. For a cut example only the piece's tokens
  // are read.
  std::int64_t num_loss_tokens(const Piece& piece) const;
  // Starts loading the example's values for the functions above, because a shuffled order would
  // wait for memory at each.
  void prefetch(ExampleIndex example) const {
    lengths_.prefetch(example);
    num_loss_tokens_.prefetch(example);
  }

 private:
  bool is_truncated(std::size_t example) const {
    return too_long_ == TooLong::kTruncate && is_too_long(example);
  }
  bool is_too_long(std::size_t example) const { return lengths_[example] > max_length_; }
  bool are_all_selected() const;
  bool select(std::size_t example);
  [[noreturn]] void fail_empty() const;
  bool keeps_a_label(std::size_t example) const;
  [[noreturn]] void fail_too_long() const;

  const GroupUnits* units_ = nullptr;
  ExampleCounts lengths_;
  ExampleCounts num_loss_tokens_;
  const LossCounter& counter_;
  TooLong too_long_;
  std::int64_t max_length_;
  SelectedExamples examples_;
  SelectionCounts counts_;
};

// The values of data.too_long that shorten or leave out long examples, for advice. Groups are never
// cut.
inline const char* ways_to_shorten(const Selection& selection) {
  return selection.units() == nullptr ? "truncate, split or drop" : "drop";
}

}  // namespace packtrain
