// Iterators for classes that have operator[] with an index.
#pragma once

#include <compare>
#include <cstddef>
#include <iterator>
#include <utility>

namespace packtrain {

// `Sequence` must outlive it. Elements are returned by value, because they can be computed.
template <typename Sequence>
class IndexIterator {
 public:
  using value_type = decltype(std::declval<const Sequence&>()[0]);
  using reference = value_type;
  using pointer = void;
  using difference_type = std::ptrdiff_t;
  using iterator_category = std::random_access_iterator_tag;

  IndexIterator() = default;
  IndexIterator(const Sequence& sequence, std::size_t index)
      : sequence_(&sequence), index_(static_cast<difference_type>(index)) {}

  value_type operator*() const { return (*sequence_)[static_cast<std::size_t>(index_)]; }
  value_type operator[](difference_type n) const { return *(*this + n); }
  IndexIterator& operator++() { return *this += 1; }
  IndexIterator& operator--() { return *this += -1; }
  IndexIterator operator++(int) { return std::exchange(*this, *this + 1); }
  IndexIterator operator--(int) { return std::exchange(*this, *this - 1); }
  IndexIterator& operator+=(difference_type n) {
    index_ += n;
    return *this;
  }
  IndexIterator& operator-=(difference_type n) { return *this += -n; }
  friend IndexIterator operator+(IndexIterator at, difference_type n) { return at += n; }
  friend IndexIterator operator+(difference_type n, IndexIterator at) { return at += n; }
  friend IndexIterator operator-(IndexIterator at, difference_type n) { return at -= n; }
  friend difference_type operator-(const IndexIterator& a, const IndexIterator& b) {
    return a.index_ - b.index_;
  }
  friend bool operator==(const IndexIterator& a, const IndexIterator& b) {
    return a.index_ == b.index_;
  }
  friend auto operator<=>(const IndexIterator& a, const IndexIterator& b) {
    return a.index_ <=> b.index_;
  }

 private:
  const Sequence* sequence_ = nullptr;
  difference_type index_ = 0;
};

}  // namespace packtrain
