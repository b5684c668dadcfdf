// A store that shows another one, and differs in what a derived class overrides.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "framework/data/token_store.h"

namespace packtrain {

class StoreView : public TokenStore {
 public:
  const StoreInfo& info() const override { return store_->info(); }
  const std::string& folder() const override { return store_->folder(); }
  ExampleCounts lengths() const override { return store_->lengths(); }
  ExampleCounts num_loss_tokens() const override { return store_->num_loss_tokens(); }
  std::span<const std::int32_t> input_ids(std::int64_t example) const override {
    return store_->input_ids(example);
  }
  std::span<const std::uint8_t> loss_mask(std::int64_t example) const override {
    return store_->loss_mask(example);
  }
  std::int16_t source(std::int64_t example) const override { return store_->source(example); }
  void check_tokens(std::int64_t example, std::int64_t begin, std::int64_t end) const override {
    store_->check_tokens(example, begin, end);
  }
  void check_all(std::size_t part, std::size_t num_parts) const override {
    store_->check_all(part, num_parts);
  }
  std::string fingerprint() const override { return store_->fingerprint(); }
  void keep_fingerprint(const std::string& found) const override {
    store_->keep_fingerprint(found);
  }
  std::string content_digest() const override { return store_->content_digest(); }
  ExampleOrigin origin(std::int64_t example) const override { return store_->origin(example); }
  std::vector<StoreUse> uses() const override { return store_->uses(); }
  const LossWeights& loss_weights() const override { return store_->loss_weights(); }
  TokenWeights token_weights(std::int64_t example) const override {
    return store_->token_weights(example);
  }
  bool has_token_weights() const override { return store_->has_token_weights(); }

 protected:
  explicit StoreView(std::unique_ptr<TokenStore> store) : store_(std::move(store)) {}
  const TokenStore& viewed() const { return *store_; }

 private:
  std::unique_ptr<TokenStore> store_;
};

}  // namespace packtrain
