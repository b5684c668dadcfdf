#include "samplers/batches/whole_examples.h"

#include <algorithm>
#include <span>
#include <utility>

namespace packtrain {
namespace {

StepPieces step_of(const Selection& selection, std::span<const ExampleIndex> examples) {
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
    return step_of(selection_, std::span(order_).subspan(first, count));
  }

 private:
  const Selection& selection_;
  std::size_t size_;
  std::vector<ExampleIndex> order_;
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
    return step_of(selection_, std::span(order_).subspan(begins_[s], end - begins_[s]));
  }

 private:
  const Selection& selection_;
  std::vector<ExampleIndex> order_;
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
  return (std::ssize(selection.examples()) + size - 1) / size;
}

}  // namespace packtrain
