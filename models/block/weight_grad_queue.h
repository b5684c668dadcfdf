// The products of a block's backward that only the gradients of its parameters need.
#pragma once

#include <functional>
#include <utility>
#include <vector>

namespace packtrain {

class WeightGradQueue {
 public:
  // Runs the product, or keeps it until flush() if defer() was called before. It must not read
  // weights.
  void run_or_defer(std::function<void()> product) {
    if (!defers_) return product();
    deferred_.push_back(std::move(product));
  }
  void defer() { defers_ = true; }
  // Each product is destroyed after it has run, which frees its operands.
  void flush() {
    for (auto& product : deferred_) std::exchange(product, nullptr)();
    deferred_.clear();
  }

 private:
  bool defers_ = false;
  std::vector<std::function<void()>> deferred_;
};

}  // namespace packtrain
