// A token store in which every token of one example is changed, or some of them. The contamination
// detector compares it with the real store. Lengths, masks and all other examples are unchanged.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "framework/data/token_store.h"

namespace packtrain {

class PerturbedStore final : public TokenStore {
 public:
  // `store` must outlive the object. Ids stay inside 0 .. vocab_size - 1. With a vocabulary of one
  // token nothing changes.
  PerturbedStore(const TokenStore& store, std::int64_t example, std::int64_t vocab_size);
  // Changes the example's tokens [begin, end) alone.
  PerturbedStore(const TokenStore& store, std::int64_t example, std::int64_t begin,
                 std::int64_t end, std::int64_t vocab_size);

  const StoreInfo& info() const override { return info_; }
  const std::string& folder() const override { return store_.folder(); }
  ExampleCounts lengths() const override { return store_.lengths(); }
  ExampleCounts num_loss_tokens() const override { return store_.num_loss_tokens(); }
  std::span<const std::int32_t> input_ids(std::int64_t example) const override {
    return example == example_ ? std::span<const std::int32_t>(ids_) : store_.input_ids(example);
  }
  std::span<const std::uint8_t> loss_mask(std::int64_t example) const override {
    return store_.loss_mask(example);
  }
  std::int16_t source(std::int64_t example) const override { return store_.source(example); }
  std::string fingerprint() const override { return store_.fingerprint(); }
  ExampleOrigin origin(std::int64_t example) const override { return store_.origin(example); }
  const LossWeights& loss_weights() const override { return store_.loss_weights(); }
  TokenWeights token_weights(std::int64_t example) const override {
    return store_.token_weights(example);
  }
  bool has_token_weights() const override { return store_.has_token_weights(); }
  const ExampleGroups* groups() const override { return store_.groups(); }
  std::span<const float> token_column(std::int64_t example, std::size_t column) const override {
    return store_.token_column(example, column);
  }

 private:
  const TokenStore& store_;
  StoreInfo info_;  // with the vocabulary of the changed ids
  std::int64_t example_;
  std::vector<std::int32_t> ids_;
};

}  // namespace packtrain
