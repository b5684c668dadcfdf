#include "samplers/batches/whole_examples.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace packtrain {
namespace {

// Of the places `first` to `first + count - 1` of the order.
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

class TokenBatches final : public EpochBatches {
 public:
  explicit TokenBatches(BatchInputs inputs)
      : selection_(inputs.selection), order_(std::move(inputs.order)) {
    std::int64_t tokens = inputs.options.global_batch_tokens;  // the first example opens a step
    for (std::size_t i = 0; i < order_.size(); ++i) {
      const std::int32_t length = selection_.length(order_[i]);
      if (i == 0 || tokens + length > inputs.options.global_batch_tokens) {
        begins_.push_back(static_cast<ExampleIndex>(i));
        tokens = 0;
      }
      tokens += length;
    }
  }

  std::int64_t num_steps() const override { return std::ssize(begins_); }

  StepPieces step(std::int64_t step_of_epoch) const override {
    const auto s = static_cast<std::size_t>(step_of_epoch);
    const std::size_t end = s + 1 < begins_.size() ? begins_[s + 1] : order_.size();
    return step_of(selection_, order_, begins_[s], end - begins_[s]);
  }

 private:
  const Selection& selection_;
  Order order_;
  std::vector<ExampleIndex> begins_;  // [steps] places in the order
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
