#include "samplers/epochs.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "samplers/order.h"

namespace packtrain {

Epochs::Epochs(const Selection& selection, const PlanOptions& options,
               const StrategyEntry& strategy)
    : selection_(selection),
      options_(options),
      strategy_(strategy),
      steps_per_epoch_(strategy.steps_per_epoch(selection, options)) {}

Epochs::Batches Epochs::batches(std::int64_t epoch) const {
  std::promise<Batches> promise;
  std::shared_future<Batches> found;
  bool is_ours = false;
  {
    const std::lock_guard lock(cache_mutex_);
    if (latest_.epoch != epoch) std::swap(latest_, previous_);
    if (latest_.epoch != epoch) {
      is_ours = true;
      latest_ = {epoch, promise.get_future().share()};  // the older one goes before this is made
    }
    found = latest_.batches;
  }
  if (is_ours) {
    try {
      promise.set_value(make(epoch));
    } catch (...) {
      promise.set_exception(std::current_exception());
    }
  }
  return found.get();
}

bool Epochs::is_ready(std::int64_t epoch) const {
  const std::lock_guard lock(cache_mutex_);
  for (const Entry& entry : {latest_, previous_}) {
    if (entry.epoch != epoch) continue;
    return entry.batches.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
  return false;
}

Epochs::Batches Epochs::make(std::int64_t epoch) const {
  const OrderOptions order{options_.order, options_.seed, options_.global_batch_size, selection_,
                           options_.order_version};
  return strategy_.make_batches(
      {selection_, options_, static_cast<std::uint64_t>(epoch), Order(order, epoch)});
}

void Epochs::append_epoch() const {
  const std::int64_t epoch = std::ssize(first_steps_) - 1;
  first_steps_.push_back(first_steps_.back() + batches(epoch)->num_steps());
}

StepPosition Epochs::position(std::int64_t step) const {
  if (steps_per_epoch_) return {step / *steps_per_epoch_, step % *steps_per_epoch_};
  const std::lock_guard lock(table_mutex_);
  while (first_steps_.back() <= step) append_epoch();
  const auto after = std::ranges::upper_bound(first_steps_, step);
  return {after - first_steps_.begin() - 1, step - *(after - 1)};
}

std::int64_t Epochs::num_steps(std::int64_t num_epochs, std::optional<std::int64_t> at_most) const {
  const std::int64_t most = at_most.value_or(std::numeric_limits<std::int64_t>::max());
  if (steps_per_epoch_) return std::min(num_epochs * *steps_per_epoch_, most);
  const std::lock_guard lock(table_mutex_);
  while (std::ssize(first_steps_) <= num_epochs && first_steps_.back() < most) append_epoch();
  const std::int64_t last = std::min(num_epochs, std::ssize(first_steps_) - 1);
  return std::min(first_steps_[static_cast<std::size_t>(last)], most);
}

}  // namespace packtrain
