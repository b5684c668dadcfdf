// One count for each example of a store, tokens or labels. Step plans are computed from them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "framework/core/index_iterator.h"

namespace packtrain {

// The smallest and largest count of a store.
struct CountBounds {
  std::int32_t least = 0;
  std::int32_t most = 0;

  friend bool operator==(const CountBounds&, const CountBounds&) = default;
};

// Source of counts that are stored in files. Thread-safe.
class CountSource {
 public:
  CountSource() = default;
  CountSource(const CountSource&) = delete;
  CountSource& operator=(const CountSource&) = delete;
  virtual ~CountSource() = default;

  virtual std::size_t size() const = 0;
  // throws Error(kData) when it is damaged
  virtual std::int32_t count(std::size_t example) const = 0;
  // Starts loading a count. Without it a shuffled order would wait for memory at each example.
  virtual void prefetch(std::size_t /*example*/) const {}
  // Known without reading the examples, or nothing.
  virtual std::optional<CountBounds> bounds() const { return {}; }
};

// A view. The numbers must outlive it.
class ExampleCounts {
 public:
  using Iterator = IndexIterator<ExampleCounts>;

  // Implicit, as the conversion of a vector to a span is.
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
