// The examples of a store that are trained, by index.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "framework/core/index_iterator.h"

namespace packtrain {

using ExampleIndex = std::uint32_t;  // 4 bytes: a table for 100 million examples stays small

// Ascending indices. Stored as the shorter of two lists: selected examples, or those left out. It
// is empty when all are selected, and takes at most 2 bytes an example of the store.
class SelectedExamples {
 public:
  using Iterator = IndexIterator<SelectedExamples>;

  SelectedExamples() = default;
  // Selects all of 0 .. num_examples - 1 except `left_out`, which is ascending.
  SelectedExamples(std::size_t num_examples, std::vector<ExampleIndex> left_out);

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  // O(1), or O(log list) where the list is of those left out.
  ExampleIndex operator[](std::size_t place) const {
    if (list_.empty()) return static_cast<ExampleIndex>(place);
    return is_of_selected_ ? list_[place] : beyond_left_out(place);
  }
  ExampleIndex back() const { return (*this)[size_ - 1]; }
  Iterator begin() const { return {*this, 0}; }
  Iterator end() const { return {*this, size_}; }

  // Visits each example in order, O(size + list).
  template <typename Visit>
  void for_each(Visit&& visit) const {
    if (is_of_selected_) {
      for (const ExampleIndex example : list_) visit(example);
      return;
    }
    auto left_out = list_.begin();
    const std::size_t num_examples = size_ + list_.size();
    for (std::size_t e = 0; e < num_examples; ++e) {
      if (left_out != list_.end() && *left_out == e) {
        ++left_out;
      } else {
        visit(static_cast<ExampleIndex>(e));
      }
    }
  }
  std::vector<ExampleIndex> table() const;  // 4 bytes an example

 private:
  ExampleIndex beyond_left_out(std::size_t place) const;

  std::size_t size_ = 0;
  bool is_of_selected_ = false;
  std::vector<ExampleIndex> list_;
};

}  // namespace packtrain
