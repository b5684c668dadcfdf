#include "framework/data/turn_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "framework/core/error.h"

namespace packtrain {
namespace {

class SingleTurns final : public ExampleGroups {
 public:
  explicit SingleTurns(std::int64_t num_examples) : num_examples_(num_examples) {}

  ExampleGroup group(std::int64_t number) const override { return {checked(number), 1}; }
  std::int64_t group_of(std::int64_t example) const override { return checked(example); }
  GroupRole role(std::int64_t example) const override {
    checked(example);
    return GroupRole::kTurn;
  }

 private:
  std::int64_t checked(std::int64_t number) const {
    if (number >= 0 && number < num_examples_) return number;
    throw Error(ErrorCategory::kInternal,
                fmt::format("asked for example {} of {} single turns", number, num_examples_));
  }

  std::int64_t num_examples_;
};

// All but the groups is the other store's.
class SingleTurnStore final : public TokenStore {
 public:
  explicit SingleTurnStore(std::unique_ptr<TokenStore> store)
      : store_(std::move(store)), info_(store_->info()), turns_(info_.num_examples) {
    info_.groups = GroupInfo{GroupKind::kTurns, info_.num_examples, false};
  }

  const StoreInfo& info() const override { return info_; }
  const ExampleGroups* groups() const override { return &turns_; }
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

 private:
  std::unique_ptr<TokenStore> store_;
  StoreInfo info_;
  SingleTurns turns_;
};

bool has_turns(const TokenStore& store) {
  return store.info().groups && store.info().groups->kind == GroupKind::kTurns;
}

}  // namespace

void match_turns(std::vector<std::unique_ptr<TokenStore>*> stores) {
  if (std::ranges::none_of(stores, [](const auto* store) { return has_turns(**store); })) return;
  for (std::unique_ptr<TokenStore>* store : stores) {
    if (!(*store)->info().groups) *store = std::make_unique<SingleTurnStore>(std::move(*store));
  }
}

}  // namespace packtrain
