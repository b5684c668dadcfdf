#include "samplers/epochs.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "samplers/order.h"

namespace packtrain {

Epochs::Epochs(const Selection& selection, const PlanOptions& options,
               const StrategyEntry& strategy, PlanStart start)
    : selection_(selection),
      options_(options),
      strategy_(strategy),
      steps_per_epoch_(strategy.steps_per_epoch(selection, options)),
      start_(std::move(start)) {
  const auto is_left = [this](ExampleIndex example) { return !start_.is_trained(example); };
  if (!start_.trained.empty() && std::ranges::none_of(selection.examples(), is_left)) {
    ++start_.epoch;
    start_.trained.clear();
  }
  first_steps_ = {start_.step};
  if (!start_.trained.empty()) rest_steps_ = batches(start_.epoch)->num_steps();
}

Epochs::Batches Epochs::batches(std::int64_t epoch) const {
  std::promise<Batches> promise;
  std::shared_future<Batches> found;
  bool is_ours = false;
  {
    const std::lock_guard lock(cache_mutex_);
    if (latest_.epoch != epoch) std::swap(latest_, previous_);
    if (latest_.epoch != epoch) {
      is_ours = true;
      // Frees the older epoch before the new one is made.
      latest_ = {epoch, promise.get_future().share()};
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

std::optional<std::shared_future<Epochs::Batches>> Epochs::kept(std::int64_t epoch) const {
  const std::lock_guard lock(cache_mutex_);
  for (const Entry& entry : {latest_, previous_}) {
    if (entry.epoch == epoch) return entry.batches;
  }
  return std::nullopt;
}

bool Epochs::is_ready(std::int64_t epoch) const {
  const auto found = kept(epoch);
  return found && found->wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

Order Epochs::order(std::int64_t epoch) const {
  if (traits_of(options_.strategy).has_plan_file) return std::vector<ExampleIndex>{};
  Order order({options_.order, options_.seed, options_.global_batch_size, selection_,
               options_.order_version},
              epoch);
  if (epoch != start_.epoch || start_.trained.empty()) return order;
  std::vector<ExampleIndex> left = std::move(order).take_table();
  std::erase_if(left, [this](ExampleIndex example) { return start_.is_trained(example); });
  return left;
}

Epochs::Batches Epochs::make(std::int64_t epoch) const {
  return strategy_.make_batches(
      {selection_, options_, static_cast<std::uint64_t>(epoch), order(epoch)});
}

std::int64_t Epochs::newest_epoch() const {
  return start_.epoch + std::ssize(first_steps_) - 1;
}

bool Epochs::newest_has(std::int64_t step) const {
  return batches(newest_epoch())->has_step(step - first_steps_.back());
}

void Epochs::append_epoch() const {
  const std::int64_t epoch = newest_epoch();
  const bool is_whole = epoch != start_.epoch || start_.trained.empty();
  std::int64_t num_steps = are_equal() && is_whole ? equal_steps_ : 0;
  if (num_steps == 0) num_steps = count_steps(epoch);
  if (is_whole) equal_steps_ = num_steps;
  first_steps_.push_back(first_steps_.back() + num_steps);
}

std::optional<std::int64_t> Epochs::first_uncounted() const {
  if (steps_per_epoch_ || are_equal()) return std::nullopt;
  const std::lock_guard lock(table_mutex_);
  return newest_epoch();
}

std::int64_t Epochs::count_steps(std::int64_t epoch) const {
  if (epoch == start_.epoch) return batches(epoch)->num_steps();
  const auto found = kept(epoch);
  return found ? found->get()->num_steps() : make(epoch)->num_steps();
}

void Epochs::add_counts(std::int64_t first, std::span<const std::int64_t> counts) const {
  const std::lock_guard lock(table_mutex_);
  while (newest_epoch() >= first && newest_epoch() - first < std::ssize(counts)) {
    const auto newest = static_cast<std::size_t>(newest_epoch() - first);
    first_steps_.push_back(first_steps_.back() + counts[newest]);
  }
}

StepPosition Epochs::whole_start() const {
  const bool is_part = rest_steps_ > 0;
  return {.epoch = start_.epoch + (is_part ? 1 : 0), .step_of_epoch = start_.step + rest_steps_};
}

StepPosition Epochs::position(std::int64_t step) const {
  if (step < start_.step) return {start_.epoch, 0};
  if (steps_per_epoch_) {
    const auto [epoch, first_step] = whole_start();
    if (step < first_step) return {start_.epoch, step - start_.step};
    const std::int64_t behind = step - first_step;
    return {epoch + behind / *steps_per_epoch_, behind % *steps_per_epoch_};
  }
  const std::lock_guard lock(table_mutex_);
  while (first_steps_.back() <= step) {
    if (newest_has(step)) return {newest_epoch(), step - first_steps_.back()};
    append_epoch();
  }
  const auto after = std::ranges::upper_bound(first_steps_, step);
  return {start_.epoch + (after - first_steps_.begin()) - 1, step - *(after - 1)};
}

std::int64_t Epochs::epoch_end(std::int64_t step) const {
  if (steps_per_epoch_) {
    const std::int64_t first_step = whole_start().step_of_epoch;
    if (step < first_step) return first_step;
    return first_step + ((step - first_step) / *steps_per_epoch_ + 1) * *steps_per_epoch_;
  }
  const std::lock_guard lock(table_mutex_);
  while (first_steps_.back() <= step) append_epoch();
  return *std::ranges::upper_bound(first_steps_, step);
}

std::int64_t Epochs::num_steps(std::int64_t num_epochs, std::optional<std::int64_t> at_most) const {
  const std::int64_t most = at_most.value_or(std::numeric_limits<std::int64_t>::max());
  if (num_epochs <= start_.epoch) return std::min(start_.step, most);
  if (steps_per_epoch_) {
    const auto [epoch, first_step] = whole_start();
    return std::min(first_step + (num_epochs - epoch) * *steps_per_epoch_, most);
  }
  const std::lock_guard lock(table_mutex_);
  const std::int64_t num_further = num_epochs - start_.epoch;
  while (std::ssize(first_steps_) <= num_further && first_steps_.back() < most) {
    if (at_most && newest_has(most - 1)) return most;
    append_epoch();
  }
  const std::int64_t last = std::min(num_further, std::ssize(first_steps_) - 1);
  return std::min(first_steps_[static_cast<std::size_t>(last)], most);
}

}  // namespace packtrain
