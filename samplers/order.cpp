#include "samplers/order.h"

#include <array>
#include <utility>

#include "framework/support/error.h"
#include "framework/support/random.h"

namespace packtrain {
namespace {

void arrange_sequential(std::uint64_t, std::int64_t, std::span<ExampleIndex>) {}

// R. Durstenfeld, "Algorithm 235: Random permutation", CACM 1964.
void arrange_random(std::uint64_t seed, std::int64_t epoch, std::span<ExampleIndex> examples) {
  const CounterRandom random(seed, "order", static_cast<std::uint64_t>(epoch));
  for (std::size_t i = examples.size(); i > 1; --i) {
    std::swap(examples[i - 1], examples[random.below(i, i)]);
  }
}

struct OrderEntry {
  OrderKind kind;
  void (*arrange)(std::uint64_t seed, std::int64_t epoch, std::span<ExampleIndex> examples);
};

constexpr std::array kOrders = {
    OrderEntry{OrderKind::kSequential, arrange_sequential},
    OrderEntry{OrderKind::kRandom, arrange_random},
};

}  // namespace

void arrange(OrderKind order, std::uint64_t seed, std::int64_t epoch,
             std::span<ExampleIndex> examples) {
  for (const OrderEntry& entry : kOrders) {
    if (entry.kind == order) return entry.arrange(seed, epoch, examples);
  }
  throw Error(ErrorCategory::kInternal, "this order is missing from the table in samplers/order");
}

std::shared_ptr<const std::vector<ExampleIndex>> EpochOrders::of_epoch(std::int64_t epoch) const {
  // Held while shuffling: a second thread that asks for the same epoch waits for it.
  const std::lock_guard lock(mutex_);
  if (latest_.epoch != epoch) std::swap(latest_, previous_);
  if (latest_.epoch != epoch) {
    latest_ = {};  // frees the older order before the new one is made
    auto order = std::make_shared<std::vector<ExampleIndex>>(examples_.begin(), examples_.end());
    arrange(order_, seed_, epoch, *order);
    latest_ = {epoch, std::move(order)};
  }
  return latest_.order;
}

}  // namespace packtrain
