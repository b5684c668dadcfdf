#include "framework/data/turn_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "framework/core/error.h"
#include "framework/data/store_view.h"

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

class SingleTurnStore final : public StoreView {
 public:
  explicit SingleTurnStore(std::unique_ptr<TokenStore> store)
      : StoreView(std::move(store)), info_(viewed().info()), turns_(info_.num_examples) {
    info_.groups = GroupInfo{GroupKind::kTurns, info_.num_examples, false};
  }

  const StoreInfo& info() const override { return info_; }
  const ExampleGroups* groups() const override { return &turns_; }

 private:
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
