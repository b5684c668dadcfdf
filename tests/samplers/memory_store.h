// A token store in memory, for tests of what reads stores.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "framework/data/token_store.h"

namespace packtrain::test {

struct MemoryExample {
  std::vector<std::int32_t> input_ids;
  std::vector<std::uint8_t> loss_mask;
};

class MemoryStore final : public TokenStore {
 public:
  explicit MemoryStore(std::vector<MemoryExample> examples, LossWeights weights = {},
                       std::vector<double> token_weights = {})
      : examples_(std::move(examples)),
        loss_weights_(std::move(weights)),
        token_weights_(std::move(token_weights)) {
    for (const MemoryExample& example : examples_) {
      lengths_.push_back(static_cast<std::int32_t>(example.input_ids.size()));
      for (const std::int32_t id : example.input_ids) {
        info_.vocab_size = std::max<std::int64_t>(info_.vocab_size, id + 1);
      }
      const std::span<const std::uint8_t> mask = example.loss_mask;
      num_loss_tokens_.push_back(
          mask.empty() ? 0 : static_cast<std::int32_t>(count_supervised(mask.subspan(1))));
    }
  }

  const StoreInfo& info() const override { return info_; }
  const std::string& folder() const override { return folder_; }
  ExampleCounts lengths() const override { return lengths_; }
  ExampleCounts num_loss_tokens() const override { return num_loss_tokens_; }
  std::span<const std::int32_t> input_ids(std::int64_t example) const override {
    return examples_.at(static_cast<std::size_t>(example)).input_ids;
  }
  std::span<const std::uint8_t> loss_mask(std::int64_t example) const override {
    ++*num_masks_asked_;
    return examples_.at(static_cast<std::size_t>(example)).loss_mask;
  }
  // Ten times the example's number, modulo 1000.
  std::int16_t source(std::int64_t example) const override {
    return static_cast<std::int16_t>(10 * example % 1000);
  }
  std::string fingerprint() const override { return "memory"; }
  std::int64_t num_masks_asked() const { return *num_masks_asked_; }
  // A test changes it without the store's knowledge, as files may change.
  MemoryExample& example(std::size_t index) { return examples_.at(index); }
  const LossWeights& loss_weights() const override { return loss_weights_; }
  TokenWeights token_weights(std::int64_t /*example*/) const override { return token_weights_; }
  bool has_token_weights() const override { return !token_weights_.empty(); }

 private:
  std::vector<MemoryExample> examples_;
  std::vector<std::int32_t> lengths_;
  std::vector<std::int32_t> num_loss_tokens_;
  LossWeights loss_weights_;
  std::vector<double> token_weights_;
  StoreInfo info_;
  std::string folder_ = "memory";
  std::shared_ptr<std::atomic<std::int64_t>> num_masks_asked_ =  // of all copies
      std::make_shared<std::atomic<std::int64_t>>(0);
};

}  // namespace packtrain::test
