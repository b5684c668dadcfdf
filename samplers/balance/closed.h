// What is too full for an item, until an item comes that is short enough.
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
  // Whether something holds no more than `most` tokens: take() is it.
  bool any(std::int64_t most) const { return !heap_.empty() && heap_.front().tokens <= most; }
  std::size_t take() {
    std::ranges::pop_heap(heap_, std::ranges::greater{}, &Entry::tokens);
    const std::size_t what = heap_.back().what;
    heap_.pop_back();
    return what;
  }
  std::int64_t min_tokens() const { return heap_.front().tokens; }  // of what is closed, if any

 private:
  struct Entry {
    std::int64_t tokens = 0;
    std::size_t what = 0;
  };
  std::vector<Entry> heap_;
};

}  // namespace packtrain
