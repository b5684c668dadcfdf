// What a plan asks a store about its labels beside their counts.
#pragma once

#include <cstdint>

#include "framework/data/token_store.h"

namespace packtrain {

class LossCounter {
 public:
  virtual ~LossCounter() = default;
  // Labels among the first `num_tokens` tokens of `example`. A label is a supervised token with a
  // predecessor, so token 0 never counts. Called from several threads.
  virtual std::int64_t loss_tokens_before(std::int64_t example, std::int32_t num_tokens) const = 0;
  // Labels among its tokens `begin` to `end` - 1; begin >= 1. Of a store: O(end - begin).
  virtual std::int64_t loss_tokens_between(std::int64_t example, std::int32_t begin,
                                           std::int32_t end) const {
    return loss_tokens_before(example, end) - loss_tokens_before(example, begin);
  }
  // Whether the first `num_tokens` tokens have a label. Of a store: reads up to the first one.
  virtual bool has_label_before(std::int64_t example, std::int32_t num_tokens) const {
    return loss_tokens_before(example, num_tokens) > 0;
  }
  // What the labels among its tokens `begin` to `end` - 1 weigh by their mask bytes; begin >= 1.
  // Asked only where these weights are not all 1.
  virtual double label_weight(std::int64_t example, std::int32_t begin, std::int32_t end) const {
    return static_cast<double>(loss_tokens_between(example, begin, end));
  }
  virtual bool has_token_weights() const { return false; }
  // What the labels of each example weigh beside that, all alike.
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
