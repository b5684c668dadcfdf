#include "framework/data/ungrouped_store.h"

#include <utility>

#include "framework/data/store_view.h"

namespace packtrain {
namespace {

class UngroupedStore final : public StoreView {
 public:
  explicit UngroupedStore(std::unique_ptr<TokenStore> store)
      : StoreView(std::move(store)), info_(viewed().info()) {
    info_.groups.reset();
    info_.token_columns.clear();
  }

  const StoreInfo& info() const override { return info_; }

 private:
  StoreInfo info_;
};

}  // namespace

std::unique_ptr<TokenStore> without_groups(std::unique_ptr<TokenStore> store) {
  const bool is_plain = !store->info().groups && store->info().token_columns.empty();
  if (is_plain) return store;
  return std::make_unique<UngroupedStore>(std::move(store));
}

}  // namespace packtrain
