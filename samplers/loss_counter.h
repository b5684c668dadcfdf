// The questions about labels that a plan asks a store, in addition to their counts.
#pragma once

#include <cstdint>

#include "framework/data/token_store.h"

namespace packtrain {

class LossCounter {
 public:
  virtual ~LossCounter() = default;
  // Number of labels among the first `num_tokens` tokens of `example`. A label is a supervised
  // token with a predecessor, so token 0 is none. Several threads call it.
  virtual std::int64_t loss_tokens_before(std::int64_t example, std::int32_t num_tokens) const = 0;
  // Number of labels among tokens `begin` to `end` - 1; begin >= 1. O(end - begin) for a store.
  virtual std::int64_t loss_tokens_between(std::int64_t example, std::int32_t begin,
                                           std::int32_t end) const {
    return loss_tokens_before(example, end) - loss_tokens_before(example, begin);
  }
  // True when the first `num_tokens` tokens have a label. For a store it reads up to the first
  // label.
  virtual bool has_label_before(std::int64_t example, std::int32_t num_tokens) const {
    return loss_tokens_before(example, num_tokens) > 0;
  }
  // Sum of mask weights over the labels among tokens `begin` to `end` - 1; begin >= 1. Called only
  // where some weight is not 1.
  virtual double label_weight(std::int64_t example, std::int32_t begin, std::int32_t end) const {
    return static_cast<double>(loss_tokens_between(example, begin, end));
  }
  virtual bool has_token_weights() const { return false; }
  // The loss weight of each example, a factor of all its labels.
  virtual const LossWeights& loss_weights() const {
    static const LossWeights all_one;
    return all_one;
  }
};

// Reads the loss mask of a token store, which must outlive it.
class StoreLossCounter final : public LossCounter {
 public:
  explicit StoreLossCounter(const TokenStore& store) : store_(store) {}
  std::int64_t loss_tokens_before(std::int64_t example, std::int32_t num_tokens) const override {
    return loss_tokens_between(example, 1, num_tokens);
  }
  std::int64_t loss_tokens_between(std::int64_t example, std::int32_t begin,
                                   std::int32_t end) const override;
  bool has_label_before(std::int64_t example, std::int32_t num_tokens) const override;
  double label_weight(std::int64_t example, std::int32_t begin, std::int32_t end) const override;
  bool has_token_weights() const override { return store_.has_token_weights(); }
  const LossWeights& loss_weights() const override { return store_.loss_weights(); }

 private:
  const TokenStore& store_;
};

}  // namespace packtrain
