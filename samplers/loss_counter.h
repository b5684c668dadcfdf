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
  // What the labels of each example weigh.
  virtual const LossWeights& loss_weights() const {
    static const LossWeights all_one;
    return all_one;
  }
};

// Reads the loss mask of a token store, which must outlive it.
class StoreLossCounter final : public LossCounter {
 public:
  explicit StoreLossCounter(const TokenStore& store) : store_(store) {}
  std::int64_t loss_tokens_before(std::int64_t example, std::int32_t num_tokens) const override;
  const LossWeights& loss_weights() const override { return store_.loss_weights(); }

 private:
  const TokenStore& store_;
};

}  // namespace packtrain
