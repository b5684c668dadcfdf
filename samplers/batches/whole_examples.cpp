#include "samplers/batches/whole_examples.h"

#include <algorithm>
#include <limits>
#include <mutex>
#include <utility>
#include <vector>

namespace packtrain {
namespace {

// The step of positions `first` to `first + count - 1` of the order.
StepPieces step_of(const Selection& selection, const Order& order, std::size_t first,
                   std::size_t count) {
  std::vector<ExampleIndex> examples(count);
  for (std::size_t i = 0; i < count; ++i) examples[i] = order[first + i];
  for (const ExampleIndex example : examples) selection.prefetch(example);
  StepPieces step;
  step.pieces.reserve(examples.size());
  for (const ExampleIndex example : examples) step.append(selection, example);
  return step;
}

class CountedBatches final : public EpochBatches {
 public:
  explicit CountedBatches(BatchInputs inputs)
      : selection_(inputs.selection),
        size_(static_cast<std::size_t>(inputs.options.global_batch_size)),
        order_(std::move(inputs.order)) {}

  std::int64_t num_steps() const override {
    return static_cast<std::int64_t>((order_.size() + size_ - 1) / size_);
  }

  StepPieces step(std::int64_t step_of_epoch) const override {
    const std::size_t first = static_cast<std::size_t>(step_of_epoch) * size_;
    const std::size_t count = std::min(size_, order_.size() - first);
    return step_of(selection_, order_, first, count);
  }

 private:
  const Selection& selection_;
  std::size_t size_;
  Order order_;
};

// Steps are found on request, so that an epoch of a billion examples is not walked first.
class TokenBatches final : public EpochBatches {
 public:
  explicit TokenBatches(BatchInputs inputs)
      : selection_(inputs.selection),
        tokens_per_step_(inputs.options.global_batch_tokens),
        order_(std::move(inputs.order)) {}

  std::int64_t num_steps() const override {
    const std::lock_guard lock(mutex_);
    find(std::numeric_limits<std::int64_t>::max());
    return std::ssize(begins_);
  }

  bool has_step(std::int64_t step_of_epoch) const override {
    const std::lock_guard lock(mutex_);
    find(step_of_epoch);
    return step_of_epoch < std::ssize(begins_);
  }

  StepPieces step(std::int64_t step_of_epoch) const override {
    const auto s = static_cast<std::size_t>(step_of_epoch);
    std::size_t begin = 0;
    std::size_t end = order_.size();
    {
      const std::lock_guard lock(mutex_);
      find(step_of_epoch + 1);
      begin = begins_[s];
      if (s + 1 < begins_.size()) end = begins_[s + 1];
    }
    return step_of(selection_, order_, begin, end - begin);
  }

 private:
  // Finds the begins of steps up to `step`, at most to the epoch's end. The mutex is held.
  void find(std::int64_t step) const {
    for (; place_ < order_.size() && std::ssize(begins_) <= step; ++place_) {
      const std::int32_t length = selection_.length(order_[place_]);
      if (place_ == 0 || tokens_ + length > tokens_per_step_) {
        begins_.push_back(static_cast<ExampleIndex>(place_));
        tokens_ = 0;
      }
      tokens_ += length;
    }
  }

  const Selection& selection_;
  std::int64_t tokens_per_step_;
  Order order_;
  mutable std::mutex mutex_;
  mutable std::vector<ExampleIndex> begins_;  // [steps found] places in the order
  mutable std::size_t place_ = 0;             // position in the order reached so far
  mutable std::int64_t tokens_ = 0;           // of the last step found, up to that position
};

}  // namespace

std::unique_ptr<EpochBatches> make_whole_example_batches(BatchInputs inputs) {
  if (inputs.options.global_batch_size > 0) {
    return std::make_unique<CountedBatches>(std::move(inputs));
  }
  return std::make_unique<TokenBatches>(std::move(inputs));
}

std::optional<std::int64_t> whole_example_steps(const Selection& selection,
                                                const PlanOptions& options) {
  const std::int64_t size = options.global_batch_size;
  if (size == 0) return std::nullopt;
  return (static_cast<std::int64_t>(selection.examples().size()) + size - 1) / size;
}

}  // namespace packtrain
