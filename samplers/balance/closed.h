// Candidates without space for an item, kept until a shorter item comes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace packtrain {

// A heap with the emptiest on top.
class Closed {
 public:
  void clear() { heap_.clear(); }
  void add(std::size_t what, std::int64_t tokens) {
    heap_.push_back({tokens, what});
    std::ranges::push_heap(heap_, std::ranges::greater{}, &Entry::tokens);
  }
  // True when a candidate holds at most `most` tokens. take() returns it.
  bool any(std::int64_t most) const { return !heap_.empty() && heap_.front().tokens <= most; }
  std::size_t take() {
    std::ranges::pop_heap(heap_, std::ranges::greater{}, &Entry::tokens);
    const std::size_t what = heap_.back().what;
    heap_.pop_back();
    return what;
  }
  std::int64_t min_tokens() const {
    return heap_.front().tokens;
  }  // of the closed candidates; there must be one

 private:
  struct Entry {
    std::int64_t tokens = 0;
    std::size_t what = 0;
  };
  std::vector<Entry> heap_;
};

}  // namespace packtrain
