// One count of each example of a store, its tokens or its labels: what plans are made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "framework/support/index_iterator.h"

namespace packtrain {

// What all counts of a store lie between, both ends included.
struct CountBounds {
  std::int32_t least = 0;
  std::int32_t most = 0;

  friend bool operator==(const CountBounds&, const CountBounds&) = default;
};

// Where counts come from that lie in files. Thread-safe.
class CountSource {
 public:
  CountSource() = default;
  CountSource(const CountSource&) = delete;
  CountSource& operator=(const CountSource&) = delete;
  virtual ~CountSource() = default;

  virtual std::size_t size() const = 0;
  virtual std::int32_t count(std::size_t example) const = 0;  // Error(kData): it is damaged
  // Starts loading it: a shuffled order would wait for memory at each.
  virtual void prefetch(std::size_t /*example*/) const {}
  // Without looking at the examples, where that is known.
  virtual std::optional<CountBounds> bounds() const { return {}; }
};

// A view, whose numbers must outlive it.
class ExampleCounts {
 public:
  using Iterator = IndexIterator<ExampleCounts>;

  // Implicit, as a span of a vector is.
  // NOLINTBEGIN(google-explicit-constructor)
  ExampleCounts(std::span<const std::int32_t> values) : values_(values) {}
  ExampleCounts(const std::vector<std::int32_t>& values) : values_(values) {}
  ExampleCounts(const CountSource& source) : source_(&source) {}
  // NOLINTEND(google-explicit-constructor)

  std::size_t size() const { return source_ == nullptr ? values_.size() : source_->size(); }
  bool empty() const { return size() == 0; }
  std::int32_t operator[](std::size_t example) const {
    return source_ == nullptr ? values_[example] : source_->count(example);
  }
  void prefetch(std::size_t example) const {
    if (source_ == nullptr) {
      __builtin_prefetch(&values_[example]);
    } else {
      source_->prefetch(example);
    }
  }
  std::optional<CountBounds> bounds() const {
    return source_ == nullptr ? std::nullopt : source_->bounds();
  }
  // The view must outlive them.
  Iterator begin() const { return {*this, 0}; }
  Iterator end() const { return {*this, size()}; }

 private:
  std::span<const std::int32_t> values_;
  const CountSource* source_ = nullptr;
};

}  // namespace packtrain
